#ifndef COMERA_SERVER_AUTH_OIDC_VERIFICATION_KEY_H_
#define COMERA_SERVER_AUTH_OIDC_VERIFICATION_KEY_H_

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/openid/json_web_token.h"
#include "nlohmann/json.hpp"

namespace comera::server {

// A public key that an issuer signs tokens with: RSA of 2048 to 8192 bits, or
// one on the curve P-256. Immutable.
class VerificationKey {
 public:
  // Reads a JSON Web Key (RFC 7517). InvalidArgument: it is malformed, too
  // weak, not for signatures, or of another kind.
  static absl::StatusOr<VerificationKey> Create(const nlohmann::json& json);

  // Name of the key; empty: it has none.
  const std::string& id() const { return id_; }
  // Whether tokens of this algorithm may be signed with it.
  bool Fits(const std::string& algorithm) const;
  // Unauthenticated: this key has not signed the token.
  absl::Status Check(const JsonWebToken& token) const;
  // Whether both are the same key under the same name.
  bool operator==(const VerificationKey& other) const {
    return id_ == other.id_ && text_ == other.text_;
  }

 private:
  struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  using Key = std::shared_ptr<EVP_PKEY>;

  static absl::StatusOr<Key> MakeRsa(const nlohmann::json& json);
  static absl::StatusOr<Key> MakeP256(const nlohmann::json& json);

  std::string id_;
  // The only algorithm that it is for; empty: any that its kind has.
  std::string algorithm_;
  bool is_rsa_ = false;
  // The JSON that it was read from.
  std::string text_;
  Key key_;
};

// Reads the keys of a JSON Web Key Set; those of other kinds are left out.
// InvalidArgument: it is none, or has no key that serves.
absl::StatusOr<std::vector<VerificationKey>> ParseKeySet(
    absl::string_view text);

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_OIDC_VERIFICATION_KEY_H_
