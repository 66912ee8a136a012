#ifndef COMERA_SERVER_AUTH_TOKEN_ACCESS_H_
#define COMERA_SERVER_AUTH_TOKEN_ACCESS_H_

#include <memory>
#include <string>

#include "comera/v1/access_service.pb.h"
#include "server/auth/access.h"
#include "server/auth/forwarded_calls.h"
#include "server/auth/rate_limit.h"
#include "server/auth/token_store.h"
#include "server/rpc/user_quota.h"

namespace comera::server {

// Callers by their tokens. Until the first token is made, everybody who reaches
// the server may do everything (OpenAccess).
//
// A token's role on the whole server holds in every queue; roles in queues come
// on top. What belongs to no queue can be read by every user, and used by those
// who may use some queue; only admins of the whole server administer it.
// Workers' tokens let the workers that they name work, and nothing else; users'
// do not. A token of an earlier version names no worker: it stands for the
// worker of the certificate that comes with it, or for none. Certificates
// without tokens stand for their own workers, too.
class TokenAccess : public AccessControl {
 public:
  struct Options {
    // Every client shows a certificate.
    bool certificates = false;
    // Tokens that name no worker, and certificates, stand for any worker, as
    // before workers had tokens of their own.
    bool allow_unbound_workers = false;
  };

  // All must outlive the object.
  TokenAccess(const Options& options, TokenStore* tokens, UserLimits* limits,
              const ForwardedCalls* forwarded)
      : options_(options),
        tokens_(tokens),
        limits_(limits),
        forwarded_(forwarded) {}

  absl::StatusOr<std::unique_ptr<Caller>> Identify(
      const grpc::CallbackServerContext& context) override;

  // The same for what is answered on the HTTP port itself. `authorization`: the
  // header's value; null: there is none. `origin`: who sends it.
  absl::StatusOr<std::unique_ptr<Caller>> IdentifyHttp(
      const std::string* authorization, const ForwardedCalls::Origin& origin);

  // The token alone, without charging the user; null: none is needed.
  // Unauthenticated.
  absl::StatusOr<std::shared_ptr<const v1::Token>> FindHttpToken(
      const std::string* authorization);

  // Whether callers need a token.
  bool required() const { return tokens_->required(); }

  // What the user may keep.
  UserQuota QuotaOf(const std::string& user) const;

  // The token of the call, without charging the user; null: none is needed.
  // Unauthenticated.
  absl::StatusOr<std::shared_ptr<const v1::Token>> FindToken(
      const grpc::ServerContextBase& context);

 private:
  absl::StatusOr<std::unique_ptr<Caller>> Admit(
      std::shared_ptr<const v1::Token> token,
      const ForwardedCalls::Origin& origin, std::string worker);

  const Options options_;
  TokenStore* const tokens_;
  UserLimits* const limits_;
  const ForwardedCalls* const forwarded_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_TOKEN_ACCESS_H_
