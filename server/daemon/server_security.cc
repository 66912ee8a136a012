// Sets up TLS, tokens, limits and the audit log of a server.
#include "server/daemon/server_security.h"

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/loopback.h"
#include "common/status_macros.h"
#include "server/api/audited_call.h"
#include "server/auth/tls_credentials.h"

namespace comera::server {

absl::StatusOr<std::unique_ptr<ServerSecurity>> ServerSecurity::Create(
    const Options& options, const std::string& listen,
    const std::vector<Document>& documents, bool leads, Clock* clock,
    CoordinatorHost* host) {
  std::unique_ptr<ServerSecurity> security(
      new ServerSecurity(options.leaders_secret));
  RETURN_IF_ERROR(OidcAccess::Check(options.oidc));
  ASSIGN_OR_RETURN(security->credentials_, ServerCredentialsFrom(options.tls));
  security->leads_ = leads;
  const auto write = [host, leads](StoreBatch batch, AuditLog::WriteDone done) {
    if (!leads) return done(absl::UnavailableError("this server only reads"));
    host->Write(std::move(batch), std::move(done));
  };
  ASSIGN_OR_RETURN(security->tokens_,
                   TokenStore::Load(documents, clock, write));
  if (options.oidc.enabled()) security->TrustIssuer(options.oidc, clock);
  security->limits_ = std::make_unique<UserLimits>(options.limits, clock);
  security->audit_log_ = std::make_unique<AuditLog>(
      clock, write, [host](std::function<void(JobStore*)> read) {
        host->Read(std::move(read));
      });
  TokenAccess::Options access;
  access.certificates = !options.tls.client_ca.empty();
  access.allow_unbound_workers = options.allow_unbound_worker_tokens;
  security->access_ = std::make_unique<TokenAccess>(
      access, security->tokens_.get(), security->limits_.get(),
      &security->forwarded_);
  security->tickets_ =
      std::make_unique<TicketOffice>(security->tokens_.get(), clock);
  security->service_ = std::make_unique<AccessService>(
      security->access_.get(), security->tokens_.get(),
      security->audit_log_.get());
  if (leads && !options.init_admin_token_file.empty() &&
      !security->tokens_->HasAdmin()) {
    RETURN_IF_ERROR(security->MakeFirstToken(options.init_admin_token_file));
  }
  // The leader is about to make one.
  if (!leads && !options.init_admin_token_file.empty()) {
    security->tokens_->RequireAlways();
  }
  RETURN_IF_ERROR(security->CheckExposure(options, "listen", listen));
  return security;
}

void ServerSecurity::TrustIssuer(const OidcAccess::Options& options,
                                 Clock* clock) {
  KeySetCache::Options keys;
  keys.issuer = options.issuer;
  issuer_keys_ = std::make_unique<KeySetCache>(
      keys, KeySetCache::FetchFrom(options.issuer));
  issuer_keys_->Start();
  oidc_ = std::make_unique<OidcAccess>(options, issuer_keys_.get(), clock);
  if (!options.client_id.empty()) {
    sign_in_ = std::make_unique<BrowserSignIn>(oidc_.get(), clock);
  }
  tokens_->SetForeign(oidc_.get());
  // Nobody is to make the first token without one of the issuer's.
  tokens_->RequireAlways();
  LOG_IF(WARNING, options.roles.empty())
      << "event=no_group_has_a_role issuer=" << options.issuer
      << " text=\"the issuer's users are known and may do nothing: "
         "--oidc_role=GROUP=[QUEUE:]ROLE gives a group a role\"";
}

void ServerSecurity::Refresh(JobStore* store) {
  const auto documents = store->LoadDocuments(TokenStore::kKind);
  absl::Status status = documents.status();
  if (status.ok()) status = tokens_->Replace(*documents);
  LOG_IF(WARNING, !status.ok())
      << "event=tokens_not_read status=\"" << status << "\"";
}

absl::Status ServerSecurity::MakeFirstToken(const std::string& path) {
  v1::CreateTokenRequest request;
  request.set_user("admin");
  request.set_role(v1::ROLE_ADMIN);
  std::promise<absl::Status> made;
  tokens_->Create(
      request, "",
      [&](const absl::StatusOr<v1::CreateTokenResponse>& response) {
        made.set_value(response.status());
      },
      // Before it is stored: a token that nobody has would be the only one.
      [&](const std::string& secret) {
        return WriteFileAtomically(path, secret + "\n", 0600);
      });
  const absl::Status status = made.get_future().get();
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("init_admin_token_file: ", status.message()));
  }
  LOG(INFO) << "event=admin_token_made file=" << path;
  return absl::OkStatus();
}

absl::Status ServerSecurity::CheckExposure(const Options& options,
                                           const std::string& flag,
                                           const std::string& listen) const {
  const bool here = IsLoopback(listen.substr(0, listen.rfind(':')));
  const bool named = tokens_->required() || !options.tls.client_ca.empty();
  if (options.tls.enabled() && named) return absl::OkStatus();
  const std::string missing = absl::StrCat(
      options.tls.enabled() ? "" : "no TLS (--tls_cert, --tls_key)",
      !options.tls.enabled() && !named ? " and " : "",
      named ? ""
            : "no tokens (--init_admin_token_file, `comera token create`)");
  if (here) {
    LOG(WARNING) << "event=open_server " << flag << "=" << listen << " text=\""
                 << missing << ": reachable from this machine only"
                 << (named ? "" : ", where everybody may do everything")
                 << "\"";
    return absl::OkStatus();
  }
  if (options.insecure_allow_remote) {
    LOG(WARNING) << "event=insecure_server " << flag << "=" << listen
                 << " text=\"" << missing
                 << ": allowed by --insecure_allow_remote\"";
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": ", listen, " can be reached from other machines, and there is ",
      missing,
      ": listen on 127.0.0.1 (e.g. behind an SSH tunnel), see "
      "docs/security.md, or accept that anybody who reaches the port can run "
      "jobs with --insecure_allow_remote"));
}

void ServerSecurity::AddTo(grpc::ServerBuilder* builder,
                           const std::string& listen, int* port,
                           ConnectionGate* gate, Interceptors interceptors) {
  if (gate != nullptr) {
    gate->AttachTo(builder, credentials_);
    *port = gate->port();
  } else {
    builder->AddListeningPort(listen, credentials_, port);
  }
  if (leads_) builder->RegisterService(service_.get());
  // Answers pass them in this order.
  interceptors.insert(
      interceptors.begin(),
      MakeCallAuditor(access_.get(), &forwarded_,
                      leads_ ? audit_log_.get() : nullptr, &changes_));
  builder->experimental().SetInterceptorCreators(std::move(interceptors));
}

}  // namespace comera::server
