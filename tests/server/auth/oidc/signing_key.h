#ifndef COMERA_TESTS_SERVER_AUTH_OIDC_SIGNING_KEY_H_
#define COMERA_TESTS_SERVER_AUTH_OIDC_SIGNING_KEY_H_

#include <openssl/evp.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace comera {

// A private key of an issuer, made by OpenSSL, with which tests sign tokens.
class SigningKey {
 public:
  static SigningKey Rsa(const std::string& id, int bits = 2048);
  static SigningKey Elliptic(const std::string& id,
                             const std::string& curve = "P-256");

  // The public half as a JSON Web Key, without `alg`.
  nlohmann::json PublicJson() const;
  // A token with these claims, signed by this algorithm.
  std::string Sign(const std::string& algorithm,
                   const nlohmann::json& claims) const;
  // The same of any header: the signature is that of `algorithm`.
  std::string SignAs(const nlohmann::json& header, const std::string& algorithm,
                     const nlohmann::json& claims) const;

 private:
  SigningKey(EVP_PKEY* key, const std::string& id)
      : key_(key, EVP_PKEY_free), id_(id) {}

  std::string Number(const char* name, size_t size) const;

  std::shared_ptr<EVP_PKEY> key_;
  std::string id_;
};

// The text in base64url.
std::string ToBase64Url(absl::string_view text);

}  // namespace comera

#endif  // COMERA_TESTS_SERVER_AUTH_OIDC_SIGNING_KEY_H_
