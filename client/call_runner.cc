#include "client/call_runner.h"

#include <algorithm>
#include <random>

#include "absl/time/clock.h"
#include "common/grpc_status.h"

namespace comera::client {
namespace {

bool IsTransient(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
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

CallRunner::CallRunner(const TrainingClient::Options& options)
    : options_(options) {}

absl::Status CallRunner::Unary(
    const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  const absl::Time deadline = absl::Now() + options_.timeout;
  for (int attempt = 1;; ++attempt) {
    if (stopped_.HasHappened()) return Stopped();
    grpc::Status status;
    {
      Call one(this,
               std::min(deadline, absl::Now() + options_.attempt_timeout));
      status = call(one.context());
    }
    if (!IsTransient(status)) return FromGrpcStatus(status);
    if (absl::Now() >= deadline) return FromGrpcStatus(status);
    if (!Pause(attempt, deadline)) return Stopped();
    if (absl::Now() >= deadline) return FromGrpcStatus(status);
  }
}

absl::Status CallRunner::Stream(
    absl::Time deadline,
    const std::function<StreamEnd(grpc::ClientContext*)>& stream) {
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
    if (!end.status.ok() && !IsTransient(end.status)) {
      return FromGrpcStatus(end.status);
    }
    if (end.progressed) {
      attempt = 0;
      patience = absl::Now() + options_.reconnect_timeout;
      // A stream that lived out its time is replaced at once.
      if (end.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
        continue;
      }
    } else if (absl::Now() >= patience) {
      return end.status.ok()
                 ? absl::UnavailableError("the stream keeps ending early")
                 : FromGrpcStatus(end.status);
    }
    if (!Pause(++attempt, std::min(deadline, patience))) return Stopped();
  }
}

void CallRunner::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_.Notify();
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

bool CallRunner::Pause(int attempt, absl::Time no_later_than) {
  absl::Duration pause = options_.initial_backoff;
  for (int i = 1; i < attempt && pause < options_.max_backoff; ++i) pause *= 2;
  pause = std::min(pause, options_.max_backoff);
  // Clients that lost the same coordinator do not come back together.
  thread_local std::minstd_rand random{std::random_device{}()};
  pause *= std::uniform_real_distribution<double>(0.5, 1.0)(random);
  pause = std::min(pause, no_later_than - absl::Now());
  return !stopped_.WaitFor(pause);
}

}  // namespace comera::client
