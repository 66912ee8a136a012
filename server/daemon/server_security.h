#ifndef COMERA_SERVER_DAEMON_SERVER_SECURITY_H_
#define COMERA_SERVER_DAEMON_SERVER_SECURITY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/http/tls_files.h"
#include "grpcpp/grpcpp.h"
#include "server/api/access_service.h"
#include "server/auth/audit_log.h"
#include "server/auth/forwarded_calls.h"
#include "server/auth/oidc/browser_sign_in.h"
#include "server/auth/oidc/key_set_cache.h"
#include "server/auth/oidc/oidc_access.h"
#include "server/auth/rate_limit.h"
#include "server/auth/ticket_office.h"
#include "server/auth/token_access.h"
#include "server/auth/token_store.h"
#include "server/daemon/connection_gate.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

// All that stands between the network and a server's services: TLS, tokens,
// limits, the audit log, and the service for them.
class ServerSecurity {
 public:
  struct Options {
    TlsFiles tls;
    UserLimits::Options limits;
    // Single sign-on: with it, every call needs a token.
    OidcAccess::Options oidc;
    // While no admin token works, one is made at the start and written here,
    // for its owner's eyes only. Empty: none is made.
    std::string init_admin_token_file;
    // Take the addresses that workers announce, wherever they call from.
    bool trust_peer_addresses = false;
    // Take workers' tokens that name no worker, and certificates, for any
    // worker.
    bool allow_unbound_worker_tokens = false;
    // Serve other machines although anybody may listen to or use it.
    bool insecure_allow_remote = false;
    // Other coordinators show this secret of the present leadership with the
    // calls that they pass on. Empty: there are no others.
    std::string leaders_secret;
  };

  // `documents`: the store's of kind TokenStore::kKind. `listen`: host:port to
  // be served. Without `leads` nothing is written: neither that tokens are
  // used, nor refusals, and the service for tokens is the leader's. All
  // pointers must outlive the object. InvalidArgument: bad files, or an address
  // beyond this machine without TLS and tokens (or certificates of clients).
  static absl::StatusOr<std::unique_ptr<ServerSecurity>> Create(
      const Options& options, const std::string& listen,
      const std::vector<Document>& documents, bool leads, Clock* clock,
      CoordinatorHost* host);

  // Reads the tokens again, for a server that does not lead.
  void Refresh(JobStore* store);

  TokenAccess* access() { return access_.get(); }
  const TicketOffice* tickets() const { return tickets_.get(); }
  // Null: browsers cannot sign in at an issuer.
  BrowserSignIn* sign_in() { return sign_in_.get(); }
  const ForwardedCalls* forwarded() const { return &forwarded_; }
  // Rises with every call that changes something.
  const std::atomic<int64_t>& changes() const { return changes_; }
  // Counts one that another coordinator has answered.
  void AddChange() { ++changes_; }
  AuditLog* audit_log() { return audit_log_.get(); }

  UserLimits::Refusals refusals() { return limits_->refusals(); }

  // InvalidArgument: `listen`, as given by the flag `flag`, is beyond this
  // machine, and there are no TLS and tokens.
  absl::Status CheckExposure(const Options& options, const std::string& flag,
                             const std::string& listen) const;

  // Adds the port, which `gate` serves unless it is null, the service and what
  // watches the calls; `more` sees answers as the audit log lets them go. The object
  // must outlive the server.
  using Interceptors = std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;
  void AddTo(grpc::ServerBuilder* builder, const std::string& listen, int* port,
             ConnectionGate* gate, Interceptors more = Interceptors());

 private:
  explicit ServerSecurity(std::string leaders_secret)
      : forwarded_(std::move(leaders_secret)) {}

  absl::Status MakeFirstToken(const std::string& path);
  void TrustIssuer(const OidcAccess::Options& options, Clock* clock);

  bool leads_ = true;
  const ForwardedCalls forwarded_;
  std::atomic<int64_t> changes_{0};
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  // Null without single sign-on.
  std::unique_ptr<KeySetCache> issuer_keys_;
  std::unique_ptr<OidcAccess> oidc_;
  std::unique_ptr<BrowserSignIn> sign_in_;
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<UserLimits> limits_;
  std::unique_ptr<AuditLog> audit_log_;
  std::unique_ptr<TokenAccess> access_;
  std::unique_ptr<TicketOffice> tickets_;
  std::unique_ptr<AccessService> service_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_SERVER_SECURITY_H_
