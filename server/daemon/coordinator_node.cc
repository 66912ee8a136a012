// Runs a follower or a leader, and changes between the two.
#include "server/daemon/coordinator_node.h"

#include <signal.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/steady_time.h"

namespace comera::server {
namespace {

// Calls that run when the role changes end by themselves, with UNAVAILABLE; one
// that is cut off instead gets CANCELLED, which clients do not repeat.
constexpr absl::Duration kRoleChangeGrace = absl::Seconds(1);
// Loading all jobs takes at most 2 minutes (PostgresJobStore). A coordinator
// that is stuck in it loses the lease after this time.
constexpr absl::Duration kMaxLoading = absl::Minutes(5);

absl::Status CheckAdvertise(const CoordinatorNode::Options& options) {
  if (!options.advertise.empty()) {
    absl::StatusOr<std::pair<std::string, int>> address =
        ParseListenAddress(options.advertise);
    if (address.ok() && address->second > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("advertise: \"", options.advertise,
                     "\" is not host:port, e.g. node1.example:7400"));
  }
  ASSIGN_OR_RETURN(const auto listen,
                   ParseListenAddress(options.server.listen));
  if (listen.first == "0.0.0.0" || listen.first == "[::]") {
    return absl::InvalidArgumentError(
        absl::StrCat("advertise: missing: nobody can call ", listen.first,
                     "; say at which host:port clients and workers reach this "
                     "coordinator"));
  }
  return absl::OkStatus();
}

// A database that cannot be reached when a coordinator starts may be there
// soon; after this time the coordinator ends, with the reason.
constexpr absl::Duration kFirstPatience = absl::Seconds(30);

// Whether a signal waits that asks the server to stop: all threads block them.
bool IsAskedToStop() {
  sigset_t pending;
  return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 ||
                                       sigismember(&pending, SIGINT) == 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorNode>> CoordinatorNode::Start(
    const Options& options, Clock* clock, IdSource* ids) {
  RETURN_IF_ERROR(CheckPostgresUrl(options.server.store_url));
  if (PostgresUrlIsExposed(options.server.store_url)) {
    LOG(WARNING) << "event=database_not_verified text=\"the connection to the "
                    "database is not protected against others on the network: "
                    "add ?sslmode=verify-full to --store\"";
  }
  RETURN_IF_ERROR(CheckAdvertise(options));
  std::unique_ptr<CoordinatorNode> node(
      new CoordinatorNode(options, clock, ids));
  RETURN_IF_ERROR(node->PrepareForwarding());
  // First as a follower: the port, which the leader must tell, is then known.
  RETURN_IF_ERROR(node->ServeFirst());
  node->leadership_ = std::make_unique<PostgresLeadership>(
      options.server.store_url,
      options.advertise.empty() ? node->options_.server.listen
                                : options.advertise,
      options.lease);
  EventLoop::Options keeper;
  keeper.tick_interval = options.poll_interval;
  keeper.on_tick = [raw = node.get()] { raw->KeepLease(); };
  node->keeper_ = std::make_unique<EventLoop>(std::move(keeper));
  const absl::Status round = node->Round();
  if (!round.ok()) {
    // The database was there a moment ago: the next rounds find it again.
    if (!absl::IsUnavailable(round)) return round;
    LOG(WARNING) << "event=coordinator_round status=\"" << round << "\"";
    node->database_failed_ = true;
  }
  node->thread_ = std::thread([raw = node.get()] { raw->Loop(); });
  return node;
}

CoordinatorNode::~CoordinatorNode() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (server_ != nullptr) server_->Shutdown();
  server_.reset();
  keeper_.reset();
  // Once nothing is answered any more.
  leadership_.reset();
}

absl::Status CoordinatorNode::PrepareForwarding() {
  const TlsFiles& tls = options_.server.security.tls;
  ChannelSecurity security;
  if (tls.enabled()) {
    security.ca_file = options_.coordinator_ca.empty()
                           ? tls.client_ca
                           : options_.coordinator_ca;
    if (security.ca_file.empty()) security.ca_file = "system";
    security.certificate_file = tls.certificate;
    security.key_file = tls.key;
  }
  // Whether the files serve.
  RETURN_IF_ERROR(
      OpenChannel(options_.server.listen, security, grpc::ChannelArguments())
          .status());
  options_.server.forward = security;
  return absl::OkStatus();
}

absl::Status CoordinatorNode::ServeFirst() {
  const absl::Time give_up = SteadyNow() + kFirstPatience;
  absl::Status status = Serve(0);
  while (absl::IsUnavailable(status) && SteadyNow() < give_up &&
         !IsAskedToStop()) {
    LOG(WARNING) << "event=start_again status=\"" << status << "\"";
    Pause();
    status = Serve(0);
  }
  return status;
}

bool CoordinatorNode::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, absl::ToChronoMilliseconds(options_.poll_interval),
                 [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                   return stop_ || !lost_.ok();
                 });
  return !stop_;
}

void CoordinatorNode::Loop() {
  while (Pause()) {
    const absl::Status status = Round();
    if (status.ok() == database_failed_) {
      database_failed_ = !status.ok();
      LOG(WARNING) << "event=coordinator_round status=\"" << status << "\"";
    }
  }
}

void CoordinatorNode::KeepLease() {
  const int64_t term = leadership_->term();
  if (term == 0) return;
  if (absl::ToUnixNanos(LeaderLease::BootTime()) < loading_until_) {
    leadership_->Beat();
  }
  const absl::Status kept = leadership_->Renew();
  if (kept.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  // The node's thread may have given it up meanwhile.
  if (leadership_->term() != term) return;
  if (lost_.ok()) lost_ = kept;
  wake_.notify_all();
}

absl::Status CoordinatorNode::Round() {
  if (term_ > 0) {
    absl::Status lost;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      lost = lost_;
    }
    if (!lost.ok()) {
      StepDown(lost);
    } else {
      server_->host().loop().Post([this] { leadership_->Beat(); });
    }
    return absl::OkStatus();
  }
  // After an attempt to change roles that failed.
  if (server_ == nullptr) RETURN_IF_ERROR(Serve(0));
  ASSIGN_OR_RETURN(const bool leads, leadership_->TryAcquire());
  if (leads) return Lead();
  LeaseRow row = leadership_->last_row();
  // A leader whose lease has run out answers nothing more: better none.
  server_->leader().Set(
      row.expired
          ? LeaderHint::Leader()
          : LeaderHint::Leader{std::move(row.address), std::move(row.secret)});
  return absl::OkStatus();
}

absl::Status CoordinatorNode::Lead() {
  const int64_t term = leadership_->term();
  loading_until_ = absl::ToUnixNanos(LeaderLease::BootTime() + kMaxLoading);
  StopServing();
  const absl::Status status = Serve(term);
  if (!status.ok()) {
    // Another one may do better.
    EndLeadership();
    return status;
  }
  term_ = term;
  server_->host().loop().Post([this] { leadership_->Beat(); });
  loading_until_ = 0;
  LOG(INFO) << "event=leading term=" << term
            << " address=" << options_.server.listen;
  return absl::OkStatus();
}

void CoordinatorNode::StepDown(const absl::Status& why) {
  LOG(WARNING) << "event=stepping_down term=" << term_ << " status=\"" << why
               << "\"";
  StopServing();
  EndLeadership();
}

void CoordinatorNode::EndLeadership() {
  loading_until_ = 0;
  leadership_->GiveUp();
  term_ = 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  lost_ = absl::OkStatus();
}

void CoordinatorNode::StopServing() {
  if (server_ == nullptr) return;
  server_->Shutdown();
  server_.reset();
}

absl::Status CoordinatorNode::Serve(int64_t term) {
  ComeraServer::Options options = options_.server;
  options.term = term;
  if (term > 0) {
    options.holds = [this] { return leadership_->Holds(); };
    options.security.leaders_secret = leadership_->secret();
  }
  options.shutdown_grace = kRoleChangeGrace;
  // A leader that vanishes holds the lease until it runs out; then somebody has
  // to see that, and to load the jobs.
  options.forward_patience = 2 * options_.lease.length + options_.poll_interval;
  ASSIGN_OR_RETURN(
      server_, ComeraServer::Start(
                   options, clock_, ids_, [this](const absl::Status& status) {
                     const std::lock_guard<std::mutex> lock(mutex_);
                     lost_ = status;
                     wake_.notify_all();
                   }));
  options_.server.listen = server_->address();
  options_.server.http.server.listen = server_->http_address();
  return absl::OkStatus();
}

}  // namespace comera::server
