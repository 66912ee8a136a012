#ifndef COMERA_SERVER_AUTH_OIDC_OIDC_ACCESS_H_
#define COMERA_SERVER_AUTH_OIDC_OIDC_ACCESS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comera/v1/access_service.pb.h"
#include "common/clock.h"
#include "nlohmann/json.hpp"
#include "server/auth/foreign_tokens.h"
#include "server/auth/oidc/key_set_cache.h"

namespace comera::server {

// What members of a group may do.
struct GroupRole {
  std::string group;
  // Empty: on the whole server.
  std::string queue;
  v1::Role role = v1::ROLE_UNSPECIFIED;
};

// Reads "GROUP=[QUEUE:]ROLE"; the group may hold "=" itself. InvalidArgument.
absl::StatusOr<GroupRole> ParseGroupRole(const std::string& text);

// Tokens of an issuer of OpenID Connect, as bearer tokens of its users.
//
// A token is good if a key of the issuer signed it, `iss` is the issuer, `aud`
// holds an audience of this server, and it is neither early (`nbf`, `iat`) nor
// late (`exp`), give or take a minute. A token for several audiences must name
// one of this server's in `azp` too. The user is "oidc:" and the token's `sub`:
// names of users of this server's own tokens hold no colon. Its roles are those
// of its groups; a token without such a group is known and may do nothing.
//
// What was verified is remembered until it expires, or its key goes.
// Thread-safe; does not block.
class OidcAccess : public ForeignTokens {
 public:
  struct Options {
    // Empty: no tokens are taken.
    std::string issuer;
    std::vector<std::string> audiences;
    // The client that browsers sign in as, an audience as well; empty: they
    // cannot.
    std::string client_id;
    // The claim that holds the names of the user's groups.
    std::string groups_claim = "groups";
    std::vector<GroupRole> roles;

    bool enabled() const { return !issuer.empty(); }
  };
  // How far the issuer's clock may be off.
  static constexpr absl::Duration kClockSkew = absl::Seconds(60);

  // InvalidArgument, by the name of a flag: the issuer is no URL, or there is
  // no audience.
  static absl::Status Check(const Options& options);

  // `keys` and `clock` must outlive the object.
  OidcAccess(const Options& options, KeySetCache* keys, Clock* clock);

  bool HasForm(absl::string_view secret) const override;
  bool IsName(absl::string_view name) const override;
  absl::StatusOr<std::shared_ptr<const v1::Token>> Verify(
      absl::string_view secret) override;
  absl::StatusOr<std::shared_ptr<const v1::Token>> FindWorking(
      const std::string& name) const override;

  const Options& options() const { return options_; }
  KeySetCache* keys() const { return keys_; }

 private:
  struct Known {
    std::shared_ptr<const v1::Token> token;
    // The key that has signed it.
    std::shared_ptr<const VerificationKey> key;
  };

  // The token as its claims have it, at `now`.
  absl::StatusOr<v1::Token> Read(const nlohmann::json& claims,
                                 absl::Time now) const;
  absl::Status CheckAudience(const nlohmann::json& claims) const;
  void AddRoles(const nlohmann::json& claims, v1::Token* token) const;
  // Whether what was verified still holds at `now`.
  bool Holds(const Known& known, absl::Time now) const;
  void Remember(Known known, absl::Time now);

  const Options options_;
  KeySetCache* const keys_;
  Clock* const clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;  // by name; guarded by mutex_
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_OIDC_OIDC_ACCESS_H_
