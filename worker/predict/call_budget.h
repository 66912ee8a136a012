#ifndef COMERA_WORKER_PREDICT_CALL_BUDGET_H_
#define COMERA_WORKER_PREDICT_CALL_BUDGET_H_

#include <cstdint>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"

namespace comera::worker {

// How many calls may run or wait at once, and how many bytes their requests may
// hold together.
//
//   ASSIGN_OR_RETURN(const CallBudget::Share share, budget.Take(bytes));
//   ...  // the call runs or waits
//
// Thread-safe.
class CallBudget {
 public:
  // What one call has of a budget, which outlives it; given back at
  // destruction.
  class Share {
   public:
    Share(Share&& other) noexcept;
    Share& operator=(Share&&) = delete;
    ~Share();

   private:
    friend class CallBudget;
    Share(CallBudget* budget, int64_t bytes);

    CallBudget* budget_;  // null once it has been moved from
    const int64_t bytes_;
  };

  CallBudget(int most_calls, int64_t most_bytes)
      : most_calls_(most_calls), most_bytes_(most_bytes) {}

  // `bytes` are those of the request. ResourceExhausted: other calls leave too
  // little. InvalidArgument: the request alone is too large.
  absl::StatusOr<Share> Take(int64_t bytes);

 private:
  const int most_calls_;
  const int64_t most_bytes_;
  std::mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_CALL_BUDGET_H_
