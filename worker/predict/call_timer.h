#ifndef COMERA_WORKER_PREDICT_CALL_TIMER_H_
#define COMERA_WORKER_PREDICT_CALL_TIMER_H_

#include <memory>

#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {

// Cancels a call at a time, unless it is destroyed before. What gRPC sends
// waits for a client that does not read for as long as that client stays: only
// the call's cancellation ends it.
class CallTimer {
 public:
  // `context`, the call's, must outlive it.
  CallTimer(grpc::ServerContextBase* context, absl::Time when);
  ~CallTimer();

  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  struct Call;

  // The alarm may go off while this is destroyed, so it shares this.
  const std::shared_ptr<Call> call_;
  grpc::Alarm alarm_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_CALL_TIMER_H_
