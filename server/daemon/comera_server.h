#ifndef COMERA_SERVER_DAEMON_COMERA_SERVER_H_
#define COMERA_SERVER_DAEMON_COMERA_SERVER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/rpc_channel.h"
#include "grpcpp/grpcpp.h"
#include "server/api/backup_service.h"
#include "server/api/model_service.h"
#include "server/api/queue_service.h"
#include "server/api/training_service.h"
#include "server/api/worker_service.h"
#include "server/daemon/connection_gate.h"
#include "server/daemon/leader_forwarder.h"
#include "server/daemon/leader_hint.h"
#include "server/daemon/server_security.h"
#include "server/dataset/dataset_service.h"
#include "server/host/coordinator_host.h"
#include "server/host/disk_guard.h"
#include "server/http/http_gateway.h"
#include "server/http/metrics_source.h"
#include "server/metrics/coordinator_metrics.h"
#include "server/runtime/data_dir_lock.h"
#include "server/runtime/disk_space.h"
#include "server/runtime/id_source.h"
#include "server/store/sqlite_job_store.h"
#include "server/sweep/sweep_host.h"
#include "server/sweep/sweep_service.h"
#include "server/webhook/webhook.h"

namespace comera::server {

// The gRPC health service that a coordinator reports as serving while it takes
// changes: it leads, and its disk has room.
inline constexpr char kWritesHealth[] = "comera.v1.Writes";

// A whole coordinator in this process: store, coordinator, gRPC services,
// health and reflection. Serves from Start() until Shutdown() or destruction.
// Thread-safe.
class ComeraServer {
 public:
  struct Options {
    // host:port; port 0 lets the system choose.
    std::string listen = "127.0.0.1:0";
    std::string data_dir;
    ServerSecurity::Options security;
    // Limits of the gRPC port.
    ConnectionLimits connections;
    // Whether they are kept; gRPC then gets its connections from a
    // ConnectionGate.
    bool bound_connections = true;
    // The second port; its TLS files are those of `security`.
    HttpGateway::Options http;
    // Calls that do not end by themselves are cut after this.
    absl::Duration shutdown_grace = absl::Seconds(5);
    SqliteJobStore::Options store;
    // Empty: a SQLite file in data_dir. Else a postgres:// URL, of a database
    // that several coordinators share (coordinator_node.h).
    std::string store_url;
    // With store_url: of the leadership under which this coordinator writes
    // (postgres_leadership.h); 0: another one leads, this one shows jobs.
    int64_t term = 0;
    // With term: tells whether the leadership still holds; once it does not,
    // every answer is withheld. Null: it always does.
    std::function<bool()> holds;
    // How a coordinator that does not lead opens the channel by which it passes
    // calls on to the leader.
    ChannelSecurity forward;
    // How long it holds a call while no leader is there.
    absl::Duration forward_patience = absl::Seconds(10);
    // data_dir and disk in here are ignored.
    CoordinatorHost::Options host;
    // When the coordinator becomes read-only for want of room in data_dir.
    DiskGuard::Options disk;
    // Tells the room there; null: the system does. Must outlive the server.
    DiskSpace* disk_space = nullptr;
    DatasetCatalog::Options datasets;
    DatasetDescriber::Options describer;
    SweepEngine::Options sweeps;
    // The webhook, which is told of changes of jobs' states.
    Webhook::Options webhook;
  };

  // InvalidArgument: the listen address, certificates, or an address beyond
  // this machine without TLS and tokens; FailedPrecondition: data_dir is in use
  // or newer than this program; DataLoss: the store is damaged; Unavailable:
  // the address cannot be bound. `on_failure` as in CoordinatorHost::Start.
  static absl::StatusOr<std::unique_ptr<ComeraServer>> Start(
      const Options& options, Clock* clock, IdSource* ids,
      CoordinatorHost::StatusCallback on_failure);
  ~ComeraServer();

  // With the port that was bound.
  const std::string& address() const { return address_; }
  // The same of the HTTP port; empty: there is none.
  std::string http_address() const {
    return http_ == nullptr ? "" : http_->address();
  }
  CoordinatorHost& host() { return *host_; }
  // What GET /metrics shows. It may outlive the server, and shows the last
  // figures then.
  MetricsSource metrics_source() const {
    return [metrics = metrics_] { return metrics->Text(); };
  }
  // Where a server that does not lead passes calls on to, or sends its callers.
  LeaderHint& leader() { return leader_; }

  // Ends streams and held calls, refuses new ones, flushes the store.
  void Shutdown();

 private:
  ComeraServer(const Options& options, DataDirLock lock)
      : options_(options),
        lock_(std::move(lock)),
        peer_addresses_(options.security.trust_peer_addresses) {}

  bool leads() const { return options_.store_url.empty() || options_.term; }
  void WatchDisk();
  // Sets in the health service what this server can do now. Any thread.
  void ReportHealth();
  absl::Status OpenStore();
  void AddCollectors();
  absl::Status Serve();
  // In a server that does not lead, lets the leader answer what this one
  // cannot.
  void RegisterForwarding(grpc::ServerBuilder* builder);
  absl::Status ServeHttp();

  const Options options_;
  // Destroyed last to first: HTTP, server, services, security, datasets, host,
  // webhook, store, lock.
  DataDirLock lock_;
  LeaderHint leader_;
  std::unique_ptr<DiskSpace> own_disk_space_;
  // Null in a server that does not lead.
  std::unique_ptr<DiskGuard> disk_;
  const std::shared_ptr<CoordinatorMetrics> metrics_ =
      std::make_shared<CoordinatorMetrics>();
  std::unique_ptr<JobStore> store_;
  // The cluster that a leader of several coordinators leads (cluster_id.h).
  std::string cluster_;
  // Null in a server that leads; else the same object as store_.
  ChangeFeed* feed_ = nullptr;
  // Null in a server that does not lead.
  std::unique_ptr<SweepHost> sweeps_;
  // Null in a server that does not lead, or that tells nobody.
  std::unique_ptr<Webhook> webhook_;
  std::unique_ptr<CoordinatorHost> host_;
  std::unique_ptr<DatasetCatalog> catalog_;
  std::unique_ptr<DatasetDescriber> describer_;
  std::unique_ptr<ServerSecurity> security_;
  PeerAddresses peer_addresses_;
  // The same object in a server that does not lead, for the store's thread.
  std::atomic<ServerSecurity*> following_security_{nullptr};
  std::unique_ptr<TrainingService> training_;
  std::unique_ptr<QueueService> queues_;
  std::unique_ptr<WorkerService> worker_;
  std::unique_ptr<SweepService> sweep_service_;
  std::unique_ptr<BackupService> backup_;
  // Null in a server that leads.
  std::unique_ptr<LeaderForwarder> forwarder_;
  std::unique_ptr<DatasetService> datasets_;
  std::unique_ptr<ModelService> models_;
  std::unique_ptr<grpc::Server> server_;
  // Ends before the server that it accepts for.
  std::unique_ptr<ConnectionGate> gate_;
  // The health service of server_; null before it serves.
  std::atomic<grpc::HealthCheckServiceInterface*> health_{nullptr};
  std::unique_ptr<HttpGateway> http_;
  // Shutdown() has begun.
  std::atomic<bool> leaving_{false};
  std::string address_;
};

// Splits host:port. InvalidArgument: malformed.
absl::StatusOr<std::pair<std::string, int>> ParseListenAddress(
    const std::string& listen);

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_COMERA_SERVER_H_
