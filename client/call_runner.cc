// Implements retries with back-off, reconnecting streams, and cancelling of
// running calls.

#include "client/call_runner.h"

#include <algorithm>
#include <random>

#include "absl/time/clock.h"
#include "comera/rpc/error_details.pb.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr absl::Duration kMaxRetryDelay = absl::Minutes(1);
// How often a wait for a connection checks whether the client was stopped.
constexpr absl::Duration kStopInterval = absl::Milliseconds(100);

bool IsTransient(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// How long the server asks to wait before the same call may succeed; zero if it
// does not say, or did not refuse the call for its rate.
absl::Duration RetryDelay(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
    return absl::ZeroDuration();
  }
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) {
    return absl::ZeroDuration();
  }
  google::rpc::RetryInfo retry;
  for (const auto& detail : details.details()) {
    if (!detail.UnpackTo(&retry)) continue;
    return std::clamp(absl::Seconds(retry.retry_delay().seconds()) +
                          absl::Nanoseconds(retry.retry_delay().nanos()),
                      absl::ZeroDuration(), kMaxRetryDelay);
  }
  return absl::ZeroDuration();
}

absl::Status Stopped() { return absl::CancelledError("the client stopped"); }

}  // namespace

class CallRunner::Call {
 public:
  Call(CallRunner* runner, absl::Time deadline) : runner_(runner) {
    if (deadline != absl::InfiniteFuture()) {
      context_.set_deadline(absl::ToChronoTime(deadline));
    }
    std::lock_guard<std::mutex> lock(runner_->mutex_);
    runner_->running_.insert(&context_);
    if (runner_->stopped_.HasHappened()) context_.TryCancel();
  }
  ~Call() {
    std::lock_guard<std::mutex> lock(runner_->mutex_);
    runner_->running_.erase(&context_);
  }
  grpc::ClientContext* context() { return &context_; }

 private:
  CallRunner* runner_;
  grpc::ClientContext context_;
};

CallRunner::CallRunner(const TrainingClient::Options& options, Channel channel)
    : options_(options), channel_(std::move(channel)) {}

absl::Status CallRunner::Unary(
    const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  RETURN_IF_ERROR(options_.unusable);
  const absl::Time deadline = absl::Now() + options_.timeout;
  for (int attempt = 1;; ++attempt) {
    if (stopped_.HasHappened()) return Stopped();
    grpc::Status status;
    {
      Call one(this,
               std::min(deadline, absl::Now() + options_.attempt_timeout));
      status = call(one.context());
    }
    const absl::Duration asked = RetryDelay(status);
    if (!IsTransient(status) && asked == absl::ZeroDuration()) {
      return FromGrpcStatus(status);
    }
    if (absl::Now() + asked >= deadline) return FromGrpcStatus(status);
    if (!Pause(attempt, asked, deadline)) return Stopped();
    if (absl::Now() >= deadline) return FromGrpcStatus(status);
  }
}

absl::Status CallRunner::Stream(
    absl::Time deadline,
    const std::function<StreamEnd(grpc::ClientContext*)>& stream) {
  RETURN_IF_ERROR(options_.unusable);
  absl::Time patience = absl::Now() + options_.reconnect_timeout;
  int attempt = 0;
  while (true) {
    if (stopped_.HasHappened()) return Stopped();
    StreamEnd end;
    {
      Call one(this,
               std::min(deadline, absl::Now() + options_.stream_lifetime));
      end = stream(one.context());
      // Ends a stream that is left early.
      one.context()->TryCancel();
    }
    if (end.done) return absl::OkStatus();
    if (stopped_.HasHappened()) return Stopped();
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError("the time to wait is over");
    }
    const absl::Duration asked = RetryDelay(end.status);
    if (!end.status.ok() && !IsTransient(end.status) &&
        asked == absl::ZeroDuration()) {
      return FromGrpcStatus(end.status);
    }
    if (end.progressed) {
      attempt = 0;
      patience = absl::Now() + options_.reconnect_timeout;
      // A stream that reached its lifetime is replaced at once.
      if (end.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
        continue;
      }
    } else if (absl::Now() >= patience) {
      return end.status.ok()
                 ? absl::UnavailableError("the stream keeps ending early")
                 : FromGrpcStatus(end.status);
    }
    if (!Pause(++attempt, asked, std::min(deadline, patience))) {
      return Stopped();
    }
  }
}

void CallRunner::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_.Notify();
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

bool CallRunner::Pause(int attempt, absl::Duration at_least,
                       absl::Time no_later_than) {
  absl::Duration pause = options_.initial_backoff;
  for (int i = 1; i < attempt && pause < options_.max_backoff; ++i) pause *= 2;
  pause = std::min(pause, options_.max_backoff);
  // Random, so that clients that lost the same coordinator do not come back
  // together.
  thread_local std::minstd_rand random{std::random_device{}()};
  pause *= std::uniform_real_distribution<double>(0.5, 1.0)(random);
  pause = std::min(std::max(pause, at_least), no_later_than - absl::Now());
  const std::shared_ptr<grpc::Channel> channel = channel_();
  if (at_least > absl::ZeroDuration() ||
      channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
    return !stopped_.WaitFor(pause);
  }
  // Without a call under way, gRPC checks its connections only every 5 s,
  // unless someone waits for one.
  const absl::Time end = absl::Now() + pause;
  while (!stopped_.HasHappened() && absl::Now() < end) {
    if (channel->WaitForConnected(
            absl::ToChronoTime(std::min(end, absl::Now() + kStopInterval)))) {
      break;
    }
  }
  return !stopped_.HasHappened();
}

}  // namespace comera::client
