// Identifies callers by their tokens and checks their roles.
#include "server/auth/token_access.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::server {
namespace {

constexpr std::string_view kScheme = "bearer ";

v1::Role Needed(Permission permission) {
  switch (permission) {
    case Permission::kView:
      return v1::ROLE_VIEWER;
    case Permission::kUse:
      return v1::ROLE_USER;
    case Permission::kAdminister:
    case Permission::kWork:
      break;
  }
  return v1::ROLE_ADMIN;
}

const char* Verb(Permission permission) {
  switch (permission) {
    case Permission::kView:
      return "read";
    case Permission::kUse:
      return "use";
    case Permission::kAdminister:
      return "administer";
    case Permission::kWork:
      break;
  }
  return "work for";
}

class TokenCaller : public Caller {
 public:
  TokenCaller(std::shared_ptr<const v1::Token> token, std::string peer,
              UserLimits* limits)
      : token_(std::move(token)), peer_(std::move(peer)), limits_(limits) {}
  ~TokenCaller() override {
    if (has_stream_) limits_->CloseStream(token_->user());
  }

  const std::string& user() const override { return token_->user(); }
  std::string token() const override { return token_->name(); }
  std::string peer() const override { return peer_; }
  absl::Status Check(Permission permission,
                     const std::string& queue) const override {
    return CheckToken(*token_, permission, queue);
  }
  absl::Status ChargeSubmission() const override {
    return limits_->ChargeSubmission(token_->user());
  }
  absl::Status ChargeStream() override {
    if (token_->worker() || has_stream_) return absl::OkStatus();
    RETURN_IF_ERROR(limits_->OpenStream(token_->user()));
    has_stream_ = true;
    return absl::OkStatus();
  }
  absl::Status CheckSize(size_t bytes) const override {
    const int64_t limit = limits_->options().max_request_bytes;
    if (token_->worker() || static_cast<int64_t>(bytes) <= limit) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("the request has ", bytes, " bytes, of at most ", limit));
  }
  int64_t max_queued_jobs() const override {
    return limits_->options().max_queued_jobs;
  }

 private:
  const std::shared_ptr<const v1::Token> token_;
  const std::string peer_;
  UserLimits* const limits_;
  bool has_stream_ = false;
};

// Without tokens; with certificates of clients, their names are known.
class UntoldCaller : public Caller {
 public:
  UntoldCaller(std::string user, std::string peer)
      : user_(std::move(user)), peer_(std::move(peer)) {}
  const std::string& user() const override { return user_; }
  std::string peer() const override { return peer_; }
  absl::Status Check(Permission, const std::string&) const override {
    return absl::OkStatus();
  }

 private:
  const std::string user_;
  const std::string peer_;
};

std::string CommonName(const grpc::ServerContextBase& context) {
  const auto authentication = context.auth_context();
  if (authentication == nullptr || !authentication->IsPeerAuthenticated()) {
    return "";
  }
  const auto names = authentication->FindPropertyValues("x509_common_name");
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

// "Bearer SECRET".
absl::StatusOr<std::shared_ptr<const v1::Token>> VerifyBearer(
    std::string_view value, TokenStore* tokens) {
  const bool bearer =
      value.size() > kScheme.size() &&
      std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                 [](char a, char b) {
                   return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
                 });
  if (!bearer) {
    return absl::UnauthenticatedError(
        "authorization: must be one \"Bearer TOKEN\"");
  }
  return tokens->Verify(value.substr(kScheme.size()));
}

}  // namespace

absl::Status CheckToken(const v1::Token& token, Permission permission,
                        const std::string& queue) {
  if (token.worker() || permission == Permission::kWork) {
    if (token.worker() && permission == Permission::kWork) {
      return absl::OkStatus();
    }
    return absl::PermissionDeniedError(
        token.worker() ? "a worker's token lets a worker join, nothing else"
                       : "only a worker's token lets a worker join: make one "
                         "with `comera token create --worker`");
  }
  int role = token.role();
  if (queue.empty()) {
    // Belongs to no queue.
    if (permission != Permission::kAdminister) {
      for (const auto& [name, one] : token.queue_roles()) {
        role = std::max<int>(role, one);
      }
    }
  } else {
    const auto one = token.queue_roles().find(queue);
    if (one != token.queue_roles().end()) {
      role = std::max<int>(role, one->second);
    }
  }
  if (role >= Needed(permission)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(token.user(), " may not ", Verb(permission), " ",
                   queue.empty() ? "the server" : absl::StrCat("queue ", queue),
                   permission == Permission::kAdminister
                       ? ", which others' jobs and settings need"
                       : ""));
}

absl::StatusOr<std::shared_ptr<const v1::Token>> TokenAccess::FindToken(
    const grpc::ServerContextBase& context) {
  if (!tokens_->required()) return std::shared_ptr<const v1::Token>();
  const auto& metadata = context.client_metadata();
  const auto range = metadata.equal_range("authorization");
  if (range.first == range.second) {
    return absl::UnauthenticatedError(
        "this server asks for a token: `comera login`, --token-file, "
        "COMERA_TOKEN or COMERA_TOKEN_FILE");
  }
  if (std::next(range.first) != range.second) return VerifyBearer("", tokens_);
  return VerifyBearer(
      std::string_view(range.first->second.data(), range.first->second.size()),
      tokens_);
}

absl::StatusOr<std::unique_ptr<Caller>> TokenAccess::Identify(
    const grpc::CallbackServerContext& context) {
  ASSIGN_OR_RETURN(std::shared_ptr<const v1::Token> token, FindToken(context));
  const auto origin = forwarded_->Find(context);
  if (origin) return Admit(std::move(token), *origin);
  return Admit(std::move(token), {"", CommonName(context)});
}

absl::StatusOr<std::unique_ptr<Caller>> TokenAccess::IdentifyHttp(
    const std::string* authorization, const ForwardedCalls::Origin& origin) {
  ASSIGN_OR_RETURN(std::shared_ptr<const v1::Token> token,
                   FindHttpToken(authorization));
  return Admit(std::move(token), origin);
}

absl::StatusOr<std::shared_ptr<const v1::Token>> TokenAccess::FindHttpToken(
    const std::string* authorization) {
  if (!tokens_->required()) return std::shared_ptr<const v1::Token>();
  if (authorization == nullptr) {
    return absl::UnauthenticatedError(
        "this server asks for a token: `Authorization: Bearer TOKEN`");
  }
  return VerifyBearer(*authorization, tokens_);
}

absl::StatusOr<std::unique_ptr<Caller>> TokenAccess::Admit(
    std::shared_ptr<const v1::Token> token,
    const ForwardedCalls::Origin& origin) {
  if (token == nullptr) {
    return std::unique_ptr<Caller>(
        std::make_unique<UntoldCaller>(origin.certificate_name, origin.peer));
  }
  if (!token->worker()) RETURN_IF_ERROR(limits_->ChargeRequest(token->user()));
  return std::unique_ptr<Caller>(
      std::make_unique<TokenCaller>(std::move(token), origin.peer, limits_));
}

}  // namespace comera::server
