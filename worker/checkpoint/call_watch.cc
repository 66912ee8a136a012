// Looks again and again whether a call still moves and is still wanted.

#include "worker/checkpoint/call_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {
namespace {

// How long an abandoned call may go on.
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

}  // namespace

CallWatch::CallWatch(grpc::ClientContext* context, const TransferLimits& limits)
    : context_(context),
      limits_(limits),
      moved_(SteadyNow()),
      thread_([this] { Loop(); }) {}

CallWatch::~CallWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CallWatch::Touch() {
  const std::lock_guard<std::mutex> lock(mutex_);
  moved_ = SteadyNow();
}

absl::Status CallWatch::Explain(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A call may have ended well just before it was cancelled.
  return status.ok() || why_.ok() ? status : why_;
}

void CallWatch::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (why_.ok()) {
    if (changed_.wait_for(lock, absl::ToChronoMilliseconds(kPollInterval),
                          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                            return ending_;
                          })) {
      return;
    }
    if (limits_.abandoned != nullptr && *limits_.abandoned) {
      why_ = absl::AbortedError("abandoned");
    } else if (SteadyNow() - moved_ > limits_.idle) {
      why_ = absl::DeadlineExceededError(absl::StrCat(
          "nothing has come for ", absl::FormatDuration(limits_.idle)));
    }
  }
  context_->TryCancel();
}

}  // namespace comera::worker
