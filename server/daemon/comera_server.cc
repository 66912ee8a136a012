// Puts a coordinator's parts together and starts and stops them in order.
#include "server/daemon/comera_server.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/coordinator_address.h"
#include "common/metrics/process_metrics.h"
#include "common/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "server/daemon/cluster_id.h"
#include "server/daemon/term_guard.h"
#include "server/metrics/rpc_metrics.h"
#include "server/metrics/state_families.h"
#include "server/runtime/artifact_files.h"
#include "server/store/postgres_job_store.h"

namespace comera::server {
namespace {

constexpr int kMaxMessageBytes = 16 << 20;
constexpr size_t kMaxMemoryBytes = size_t{1} << 30;
// How far a coordinator that does not lead may lag behind, nearly.
constexpr absl::Duration kFollowInterval = absl::Milliseconds(300);

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(-1);
  grpc::ResourceQuota quota("comera-server");
  quota.Resize(kMaxMemoryBytes);
  builder.SetResourceQuota(quota);
  // Two servers on one port would share its calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Finds readers and workers that vanished without a word.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // A connection that says nothing holds a place no longer than this, and one
  // without calls gives it back; its client connects again when it has one.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 300000);
  // Many, because a coordinator that does not lead passes the calls of all its
  // workers on over one connection.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 20000);
}

}  // namespace

absl::StatusOr<std::pair<std::string, int>> ParseListenAddress(
    const std::string& listen) {
  const size_t colon = listen.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen: \"", listen, "\" is not host:port, e.g. 127.0.0.1:7400"));
  }
  return std::make_pair(listen.substr(0, colon), port);
}

absl::StatusOr<std::unique_ptr<ComeraServer>> ComeraServer::Start(
    const Options& options, Clock* clock, IdSource* ids,
    CoordinatorHost::StatusCallback on_failure) {
  RETURN_IF_ERROR(ParseListenAddress(options.listen).status());
  if (options.data_dir.empty()) {
    return absl::InvalidArgumentError("data_dir: missing");
  }
  // Coordinators on one database may share the folder: the leader writes.
  ASSIGN_OR_RETURN(
      DataDirLock lock,
      DataDirLock::Acquire(options.data_dir, options.store_url.empty()
                                                 ? DataDirLock::Kind::kExclusive
                                                 : DataDirLock::Kind::kShared));
  std::unique_ptr<ComeraServer> server(
      new ComeraServer(options, std::move(lock)));
  if (server->leads()) RETURN_IF_ERROR(CleanUploads(options.data_dir));
  server->WatchDisk();
  RETURN_IF_ERROR(server->OpenStore());
  if (options.term > 0) {
    ASSIGN_OR_RETURN(server->cluster_, ClusterId(server->store_.get(), ids));
  }
  ASSIGN_OR_RETURN(const std::vector<Document> tokens,
                   server->store_->LoadDocuments(TokenStore::kKind));
  CoordinatorHost::Options host_options = options.host;
  host_options.data_dir = options.data_dir;
  host_options.disk = server->disk_.get();
  host_options.on_read_only = [raw = server.get()](bool) {
    raw->ReportHealth();
  };
  host_options.metrics = server->metrics_.get();
  std::vector<Document> untold;
  if (server->leads() && !options.webhook.url.empty()) {
    ASSIGN_OR_RETURN(untold, server->store_->LoadDocuments(Webhook::kKind));
    server->webhook_ =
        std::make_unique<Webhook>(options.webhook, Clock::Real());
    host_options.outbox = server->webhook_.get();
  }
  server->metrics_->SetLeader(server->leads(), options.term);
  if (server->feed_ != nullptr) {
    host_options.follow = server->feed_;
    host_options.tick_interval = kFollowInterval;
    host_options.on_follow = [raw = server.get()](JobStore* store) {
      ServerSecurity* security = raw->following_security_;
      if (security != nullptr) security->Refresh(store);
    };
    host_options.not_leader = [raw = server.get()] {
      return raw->leader_.NotLeader();
    };
  }
  ASSIGN_OR_RETURN(server->host_,
                   CoordinatorHost::Start(host_options, server->store_.get(),
                                          ids, clock, std::move(on_failure)));
  if (server->webhook_ != nullptr) {
    const auto forget = [host = server->host_.get()](const std::string& id) {
      host->loop().Post([host, id] {
        // A store whose disk is full keeps the deletion for later.
        if (StoreThread* const store = host->store()) {
          store->Write({{}, {}, {}, {{Webhook::kKind, id, std::nullopt}}, {}},
                       [](const absl::Status&) {});
        }
      });
    };
    server->webhook_->Start(untold, forget);
  }
  ASSIGN_OR_RETURN(
      server->security_,
      ServerSecurity::Create(options.security, options.listen, tokens,
                             server->leads(), clock, server->host_.get()));
  if (!server->leads()) server->following_security_ = server->security_.get();
  // Sweeps that were under way go on at once, within these.
  server->host_->SetQuotas(
      [access = server->security_->access()](const std::string& user) {
        return access->QuotaOf(user);
      });
  if (server->leads()) {
    ASSIGN_OR_RETURN(
        server->catalog_,
        DatasetCatalog::Start(options.datasets, server->host_.get(), clock));
    server->host_->SetDatasetPinner(server->catalog_.get());
    server->describer_ = std::make_unique<DatasetDescriber>(
        options.describer, options.data_dir, server->catalog_.get());
    SweepEngine::Options sweeps = options.sweeps;
    sweeps.keep_ended += server->host_->clock_lead_at_start();
    ASSIGN_OR_RETURN(server->sweeps_,
                     SweepHost::Start(sweeps, server->host_.get(), ids, clock));
  }
  server->AddCollectors();
  RETURN_IF_ERROR(server->Serve());
  return server;
}

void ComeraServer::WatchDisk() {
  if (!leads()) return;
  DiskSpace* space = options_.disk_space;
  if (space == nullptr) {
    own_disk_space_ = std::make_unique<StatvfsDiskSpace>(options_.data_dir);
    space = own_disk_space_.get();
  }
  disk_ = std::make_unique<DiskGuard>(options_.disk, options_.data_dir, space);
  // Before the store is opened, which may need the room of the reserve.
  disk_->Check();
}

void ComeraServer::ReportHealth() {
  grpc::HealthCheckServiceInterface* health = health_;
  if (health == nullptr) return;
  health->SetServingStatus(kLeaderHealth, leads());
  health->SetServingStatus(kWritesHealth, leads() && !disk_->read_only());
}

absl::Status ComeraServer::OpenStore() {
  if (options_.store_url.empty()) {
    ASSIGN_OR_RETURN(
        store_,
        SqliteJobStore::Open(absl::StrCat(options_.data_dir, "/jobs.sqlite"),
                             options_.store));
    return absl::OkStatus();
  }
  PostgresJobStore::Options options;
  options.max_samples = options_.store.max_samples;
  options.term = options_.term;
  ASSIGN_OR_RETURN(std::unique_ptr<PostgresJobStore> store,
                   PostgresJobStore::Open(options_.store_url, options));
  if (!leads()) feed_ = store.get();
  store_ = std::move(store);
  return absl::OkStatus();
}

absl::Status ComeraServer::Serve() {
  training_ = std::make_unique<TrainingService>(
      host_.get(), security_->access(), security_->tickets());
  queues_ = std::make_unique<QueueService>(host_.get(), security_->access());
  worker_ = std::make_unique<WorkerService>(
      host_.get(), security_->access(), security_->tickets(), &peer_addresses_);
  datasets_ = std::make_unique<DatasetService>(catalog_.get(), describer_.get(),
                                               security_->access());
  WorkerTexts::Options texts;
  texts.unencrypted = !security_->access()->required();
  const TlsFiles& tls = options_.security.tls;
  if (!tls.client_ca.empty()) {
    texts.security.ca_file = tls.client_ca;
    texts.security.certificate_file = tls.certificate;
    texts.security.key_file = tls.key;
  }
  models_ = std::make_unique<ModelService>(host_.get(), security_->access(),
                                           security_->tickets(), texts);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ASSIGN_OR_RETURN(const auto listen, ParseListenAddress(options_.listen));
  int port = 0;
  if (options_.bound_connections) {
    ASSIGN_OR_RETURN(gate_, ConnectionGate::Open(listen.first, listen.second,
                                                 options_.connections));
  }
  ServerSecurity::Interceptors observers;
  if (options_.term > 0 && options_.holds) {
    observers.push_back(MakeTermGuard(options_.term, cluster_, options_.holds,
                                      [this] { return leaving_.load(); }));
  }
  observers.push_back(MakeRpcMetrics(&metrics_->registry()));
  security_->AddTo(&builder, options_.listen, &port, gate_.get(),
                   std::move(observers));
  SetLimits(builder);
  if (!leads()) RegisterForwarding(&builder);
  builder.RegisterService(training_.get());
  if (leads()) {
    builder.RegisterService(queues_.get());
    backup_ = std::make_unique<BackupService>(host_.get(), security_->access(),
                                              store_.get());
    builder.RegisterService(worker_.get());
    builder.RegisterService(datasets_.get());
    sweep_service_ =
        std::make_unique<SweepService>(sweeps_.get(), security_->access());
    builder.RegisterService(sweep_service_.get());
    builder.RegisterService(models_.get());
    builder.RegisterService(backup_.get());
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options_.listen));
  }
  health_ = server_->GetHealthCheckService();
  ReportHealth();
  address_ = absl::StrCat(listen.first, ":", port);
  if (gate_ != nullptr) RETURN_IF_ERROR(gate_->Start());
  return ServeHttp();
}

void ComeraServer::RegisterForwarding(grpc::ServerBuilder* builder) {
  training_->ServeStoredOnly();
  LeaderForwarder::Options options;
  options.security = options_.forward;
  options.patience = options_.forward_patience;
  options.access = security_->access();
  forwarder_ = std::make_unique<LeaderForwarder>(
      options, &leader_, security_->forwarded(),
      [this](std::function<void()> done) {
        security_->AddChange();
        host_->CatchUp(std::move(done));
      },
      [this](absl::Duration delay, std::function<void()> closure) {
        host_->loop().PostAfter(delay, std::move(closure));
      });
  builder->RegisterCallbackGenericService(forwarder_.get());
}

absl::Status ComeraServer::ServeHttp() {
  HttpGateway::Options options = options_.http;
  if (options.server.listen.empty()) return absl::OkStatus();
  options.server.tls = options_.security.tls;
  RETURN_IF_ERROR(security_->CheckExposure(options_.security, "http_listen",
                                           options.server.listen));
  HttpGateway::Backend backend;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  backend.channel = server_->InProcessChannel(arguments);
  backend.access = security_->access();
  backend.forwarded = security_->forwarded();
  backend.sign_in = security_->sign_in();
  backend.changes = [security = security_.get(), host = host_.get()] {
    return security->changes() + host->visible_changes();
  };
  backend.metrics = metrics_source();
  backend.leads = leads();
  if (disk_ != nullptr) {
    backend.read_only = [disk = disk_.get()] { return disk->read_only(); };
  }
  ASSIGN_OR_RETURN(http_, HttpGateway::Start(options, std::move(backend)));
  return absl::OkStatus();
}

void ComeraServer::AddCollectors() {
  metrics_->AddCollector([host = host_.get()] {
    return std::vector<prometheus::MetricFamily>{
        JobsFamily(host->CountJobs()),
        MakeCounter("comera_dropped_samples_total",
                    "Progress samples that slow readers of watches missed.",
                    static_cast<double>(host->dropped_samples()))};
  });
  if (webhook_ != nullptr) {
    metrics_->AddCollector([webhook = webhook_.get()] {
      const Webhook::Figures figures = webhook->figures();
      return std::vector<prometheus::MetricFamily>{
          MakeGauge("comera_webhook_waiting",
                    "Changes of jobs that the webhook's receiver has not "
                    "taken yet.",
                    static_cast<double>(figures.waiting)),
          MakeCounter("comera_webhook_delivered_total",
                      "Changes of jobs that the webhook's receiver took.",
                      static_cast<double>(figures.delivered)),
          MakeCounter("comera_webhook_given_up_total",
                      "Changes of jobs that the webhook's receiver refused, or "
                      "did not take in time.",
                      static_cast<double>(figures.given_up))};
    });
  }
  metrics_->AddCollector([security = security_.get()] {
    return std::vector<prometheus::MetricFamily>{
        RefusalsFamily(security->refusals())};
  });
  metrics_->AddCollector([folder = options_.data_dir, disk = disk_.get()] {
    auto families = CollectDiskMetrics(folder);
    families.push_back(
        MakeGauge("comera_read_only",
                  "1 while the coordinator takes no changes, because its disk "
                  "is full.",
                  disk != nullptr && disk->read_only() ? 1 : 0));
    return families;
  });
}

void ComeraServer::Shutdown() {
  if (server_ == nullptr) return;
  leaving_ = true;
  // First, because the event loop of a leader that steps down may be stuck.
  server_->GetHealthCheckService()->SetServingStatus(kLeaderHealth, false);
  if (http_ != nullptr) http_->Leave();
  // It deletes what it has delivered through the host.
  if (webhook_ != nullptr) webhook_->Stop();
  host_->Stop();
  if (forwarder_ != nullptr) forwarder_->Stop();
  if (describer_ != nullptr) describer_->Stop();
  if (http_ != nullptr) http_->Shutdown(options_.shutdown_grace);
  http_.reset();
  gate_.reset();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + options_.shutdown_grace));
  server_.reset();
  // Its calls of workers post to the host.
  models_.reset();
  describer_.reset();
  catalog_.reset();
  // Its thread posts to the host.
  backup_.reset();
  metrics_->ClearCollectors();
  host_.reset();
}

ComeraServer::~ComeraServer() {
  Shutdown();
  gate_.reset();
  server_.reset();
  // Also of a server that never served: its threads use what goes next.
  if (webhook_ != nullptr) webhook_->Stop();
  describer_.reset();
  catalog_.reset();
  metrics_->ClearCollectors();
  host_.reset();
}

}  // namespace comera::server
