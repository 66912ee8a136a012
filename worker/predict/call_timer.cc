// Cancels gRPC calls that outlast their time.

#include "worker/predict/call_timer.h"

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace comera::worker {

struct CallTimer::Call {
  std::mutex mutex;
  // Null once the call may end.
  grpc::ServerContextBase* context ABSL_GUARDED_BY(mutex) = nullptr;
};

CallTimer::CallTimer(grpc::ServerContextBase* context, absl::Time when)
    : call_(std::make_shared<Call>()) {
  {
    const std::lock_guard<std::mutex> lock(call_->mutex);
    call_->context = context;
  }
  alarm_.Set(absl::ToChronoTime(when), [call = call_](bool expired) {
    if (!expired) return;
    const std::lock_guard<std::mutex> lock(call->mutex);
    if (call->context != nullptr) call->context->TryCancel();
  });
}

CallTimer::~CallTimer() {
  const std::lock_guard<std::mutex> lock(call_->mutex);
  call_->context = nullptr;
}

}  // namespace comera::worker
