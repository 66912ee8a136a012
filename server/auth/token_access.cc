// Identifies callers by their tokens and checks their roles.
#include "server/auth/token_access.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/call_metadata.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/auth/token_roles.h"

namespace comera::server {
namespace {

constexpr std::string_view kScheme = "bearer ";

// Says which workers a call may be of: those that its token names, else the one
// of the certificate that it shows.
class WorkerBinding {
 public:
  // `token`: null where there are none. `anybody`: nothing is asked for.
  WorkerBinding(std::shared_ptr<const v1::Token> token, std::string certificate,
                bool anybody)
      : token_(std::move(token)),
        certificate_(std::move(certificate)),
        anybody_(anybody) {}

  // PermissionDenied: not of the worker (empty: the call does not say which).
  absl::Status Check(const std::string& worker) const {
    const bool named = token_ != nullptr && !token_->worker_name().empty();
    if (!named && anybody_) return absl::OkStatus();
    const std::string whom =
        worker.empty() ? "a worker that does not say its name" : worker;
    if (named) {
      if (!worker.empty() && IsTokenOfWorker(*token_, worker)) {
        return absl::OkStatus();
      }
      return absl::PermissionDeniedError(absl::StrCat(
          "this token belongs to worker ", token_->worker_name(), ", not to ",
          whom,
          ": start the worker with that --name, or make it a token with "
          "`comera token create --worker`"));
    }
    if (!certificate_.empty()) {
      if (IsCertificateOfWorker(certificate_, worker)) return absl::OkStatus();
      return absl::PermissionDeniedError(
          absl::StrCat("this certificate belongs to worker ", certificate_,
                       ", not to ", whom, ": ", Remedy(worker)));
    }
    return absl::PermissionDeniedError(absl::StrCat(
        token_ != nullptr ? "this token names no worker"
                          : "this certificate has no common name",
        ", so it does not stand for ", whom, ": ", Remedy(worker)));
  }

  // The name in the call, which workers of an earlier version do not give, and
  // the one in the request.
  absl::Status CheckBoth(const std::string& caller,
                         const std::string& worker) const {
    if (!caller.empty()) RETURN_IF_ERROR(Check(caller));
    return Check(worker);
  }

 private:
  static std::string Remedy(const std::string& worker) {
    return absl::StrCat(
        "make the worker a token of its own with `comera token create --worker "
        "--name ",
        worker.empty() ? "WORKER" : worker,
        "` and write it to the file of its --token_file "
        "(docs/security.md#workers-tokens)");
  }

  const std::shared_ptr<const v1::Token> token_;
  const std::string certificate_;
  const bool anybody_;
};

class TokenCaller : public Caller {
 public:
  TokenCaller(std::shared_ptr<const v1::Token> token, std::string peer,
              std::string worker, WorkerBinding binding, TokenStore* tokens,
              UserLimits* limits)
      : token_(std::move(token)),
        peer_(std::move(peer)),
        worker_(std::move(worker)),
        binding_(std::move(binding)),
        tokens_(tokens),
        limits_(limits) {}
  ~TokenCaller() override {
    if (has_stream_) limits_->CloseStream(token_->user());
    if (has_upload_) limits_->CloseUpload(token_->user());
    if (!has_download_) return;
    if (token_->worker()) {
      limits_->CloseWorkerDownload(WorkerOrToken());
    } else {
      limits_->CloseDownload(token_->user());
    }
  }

  const std::string& user() const override { return token_->user(); }
  std::string token() const override { return token_->name(); }
  std::string peer() const override { return peer_; }
  absl::Status Check(Permission permission,
                     const std::string& queue) const override {
    RETURN_IF_ERROR(CheckToken(*token_, permission, queue));
    return permission == Permission::kWork ? binding_.Check(worker_)
                                           : absl::OkStatus();
  }
  const std::string& worker() const override { return worker_; }
  absl::Status CheckWorker(const std::string& name) const override {
    RETURN_IF_ERROR(CheckToken(*token_, Permission::kWork, ""));
    return binding_.CheckBoth(worker_, name);
  }
  absl::Status CheckStillKnown() const override {
    return tokens_->FindWorking(token_->name()).status();
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
  absl::Status ChargeUpload() override {
    if (token_->worker() || has_upload_) return absl::OkStatus();
    RETURN_IF_ERROR(limits_->OpenUpload(token_->user()));
    has_upload_ = true;
    return absl::OkStatus();
  }
  absl::Status ChargeDownload() override {
    if (has_download_) return absl::OkStatus();
    RETURN_IF_ERROR(token_->worker()
                        ? limits_->OpenWorkerDownload(WorkerOrToken())
                        : limits_->OpenDownload(token_->user()));
    has_download_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const void>> HoldDatasetChange(
      size_t size) const override {
    if (token_->worker()) return std::shared_ptr<const void>();
    const auto bytes = static_cast<int64_t>(size);
    RETURN_IF_ERROR(limits_->OpenDatasetChange(token_->user(), bytes));
    return std::shared_ptr<const void>(
        token_.get(), [limits = limits_, token = token_, bytes](const void*) {
          limits->CloseDatasetChange(token->user(), bytes);
        });
  }

 private:
  // The worker that calls, as far as it says.
  const std::string& WorkerOrToken() const {
    return worker_.empty() ? token_->name() : worker_;
  }

  const std::shared_ptr<const v1::Token> token_;
  const std::string peer_;
  const std::string worker_;
  const WorkerBinding binding_;
  TokenStore* const tokens_;
  UserLimits* const limits_;
  bool has_stream_ = false;
  bool has_upload_ = false;
  bool has_download_ = false;
};

// Without tokens; with certificates of clients, their names are known, and they
// are workers only of those names.
class UntoldCaller : public Caller {
 public:
  UntoldCaller(std::string user, std::string peer, std::string worker,
               WorkerBinding binding)
      : user_(std::move(user)),
        peer_(std::move(peer)),
        worker_(std::move(worker)),
        binding_(std::move(binding)) {}
  const std::string& user() const override { return user_; }
  std::string peer() const override { return peer_; }
  absl::Status Check(Permission permission, const std::string&) const override {
    return permission == Permission::kWork ? binding_.Check(worker_)
                                           : absl::OkStatus();
  }
  const std::string& worker() const override { return worker_; }
  absl::Status CheckWorker(const std::string& name) const override {
    return binding_.CheckBoth(worker_, name);
  }

 private:
  const std::string user_;
  const std::string peer_;
  const std::string worker_;
  const WorkerBinding binding_;
};

// Says it once of each token: a worker calls every second.
void WarnOfUnboundToken(const v1::Token& token) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const warned = new std::set<std::string>;
  {
    const std::lock_guard<std::mutex> lock(*mutex);
    if (!warned->insert(token.name()).second) return;
  }
  LOG(WARNING) << "event=unbound_worker_token token=" << token.name()
               << " text=\"it names no worker: make one for each worker with "
                  "`comera token create --worker`, and revoke it\"";
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
  if (!origin && ForwardedCalls::IsMarked(context)) {
    return absl::UnavailableError(
        "the call was passed on with the secret of another leadership: ask "
        "again");
  }
  // A follower passes the worker's name on; the HTTP port never sends one.
  return Admit(
      std::move(token),
      origin ? *origin
             : ForwardedCalls::Origin{"",
                                      ForwardedCalls::CertificateName(context)},
      MetadataOf(context, kWorkerMetadata));
}

absl::StatusOr<std::unique_ptr<Caller>> TokenAccess::IdentifyHttp(
    const std::string* authorization, const ForwardedCalls::Origin& origin) {
  ASSIGN_OR_RETURN(std::shared_ptr<const v1::Token> token,
                   FindHttpToken(authorization));
  return Admit(std::move(token), origin, "");
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

UserQuota TokenAccess::QuotaOf(const std::string& user) const {
  // Where no token is needed, a name is at most that of a certificate. Jobs of
  // nobody are older than the tokens.
  if (!tokens_->required() || user.empty()) return UserQuota();
  return limits_->options().quota;
}

absl::StatusOr<std::unique_ptr<Caller>> TokenAccess::Admit(
    std::shared_ptr<const v1::Token> token,
    const ForwardedCalls::Origin& origin, std::string worker) {
  const std::string& certificate = origin.certificate_name;
  if (token == nullptr) {
    // Without certificates everybody may do everything.
    WorkerBinding binding(
        nullptr, certificate,
        options_.allow_unbound_workers || !options_.certificates);
    return std::unique_ptr<Caller>(std::make_unique<UntoldCaller>(
        certificate, origin.peer, std::move(worker), std::move(binding)));
  }
  if (!token->worker()) {
    RETURN_IF_ERROR(limits_->ChargeRequest(token->user()));
  } else if (token->worker_name().empty()) {
    if (options_.allow_unbound_workers || certificate.empty()) {
      WarnOfUnboundToken(*token);
    }
  } else if (worker.empty() && IsResourceId(token->worker_name())) {
    worker = token->worker_name();
  }
  WorkerBinding binding(token, certificate, options_.allow_unbound_workers);
  return std::unique_ptr<Caller>(std::make_unique<TokenCaller>(
      std::move(token), origin.peer, std::move(worker), std::move(binding),
      tokens_, limits_));
}

}  // namespace comera::server
