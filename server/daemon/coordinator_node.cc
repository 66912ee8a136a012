// Runs a follower or a leader, and changes between the two.
#include "server/daemon/coordinator_node.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace comera::server {
namespace {

// Calls that run when the role changes are made again elsewhere.
constexpr absl::Duration kRoleChangeGrace = absl::Milliseconds(200);

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

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorNode>> CoordinatorNode::Start(
    const Options& options, Clock* clock, IdSource* ids) {
  RETURN_IF_ERROR(CheckPostgresUrl(options.server.store_url));
  RETURN_IF_ERROR(CheckAdvertise(options));
  std::unique_ptr<CoordinatorNode> node(
      new CoordinatorNode(options, clock, ids));
  // First as a follower: the port, which the leader must tell, is then known.
  RETURN_IF_ERROR(node->Serve(0));
  RETURN_IF_ERROR(node->Round());
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
  leadership_.reset();
}

bool CoordinatorNode::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, absl::ToChronoMilliseconds(options_.poll_interval),
                 [this] { return stop_ || !store_failure_.ok(); });
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

absl::Status CoordinatorNode::Round() {
  if (term_ > 0) {
    absl::Status lost;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      lost = store_failure_;
    }
    if (lost.ok()) lost = leadership_->Check();
    if (!lost.ok()) StepDown(lost);
    return absl::OkStatus();
  }
  // After an attempt to change roles that failed.
  if (server_ == nullptr) RETURN_IF_ERROR(Serve(0));
  if (leadership_ == nullptr) {
    leadership_ = std::make_unique<PostgresLeadership>(
        options_.server.store_url, options_.advertise.empty()
                                       ? options_.server.listen
                                       : options_.advertise);
  }
  ASSIGN_OR_RETURN(const bool leads, leadership_->TryAcquire());
  if (leads) return Lead();
  ASSIGN_OR_RETURN(const auto leader, leadership_->ReadLeader());
  server_->leader().Set(leader.address);
  return absl::OkStatus();
}

absl::Status CoordinatorNode::Lead() {
  const int64_t term = leadership_->term();
  StopServing();
  const absl::Status status = Serve(term);
  if (!status.ok()) {
    // Another one may do better.
    leadership_.reset();
    return status;
  }
  term_ = term;
  LOG(INFO) << "event=leading term=" << term
            << " address=" << options_.server.listen;
  return absl::OkStatus();
}

void CoordinatorNode::StepDown(const absl::Status& why) {
  LOG(WARNING) << "event=stepping_down term=" << term_ << " status=\"" << why
               << "\"";
  StopServing();
  leadership_.reset();
  term_ = 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  store_failure_ = absl::OkStatus();
}

void CoordinatorNode::StopServing() {
  if (server_ == nullptr) return;
  server_->Shutdown();
  server_.reset();
}

absl::Status CoordinatorNode::Serve(int64_t term) {
  ComeraServer::Options options = options_.server;
  options.term = term;
  options.shutdown_grace = kRoleChangeGrace;
  ASSIGN_OR_RETURN(
      server_, ComeraServer::Start(
                   options, clock_, ids_, [this](const absl::Status& status) {
                     const std::lock_guard<std::mutex> lock(mutex_);
                     store_failure_ = status;
                     wake_.notify_all();
                   }));
  options_.server.listen = server_->address();
  options_.server.http.server.listen = server_->http_address();
  return absl::OkStatus();
}

}  // namespace comera::server
