#ifndef COMERA_WORKER_TRAINER_STEP_STEP_READBACK_H_
#define COMERA_WORKER_TRAINER_STEP_STEP_READBACK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace comera::trainer {

// Brings the numbers that every step leaves on the device to the host while the
// next step runs.
//
//   RETURN_IF_ERROR(readback->Enqueue());   // after step k's operations
//   ... step k + 1 is enqueued ...
//   ASSIGN_OR_RETURN(const float* values, readback->Await());  // of step k
//
// Not thread-safe. The backend outlives it.
class StepReadback {
 public:
  // The number of steps whose numbers can be on their way.
  static constexpr int64_t kSteps = 2;

  // Brings the numbers that lie in `sources`. ResourceExhausted: the host has
  // no memory for them.
  static absl::StatusOr<std::unique_ptr<StepReadback>> Create(
      const std::vector<kernels::ConstVector>& sources,
      kernels::Backend* backend);
  ~StepReadback();
  StepReadback(const StepReadback&) = delete;
  StepReadback& operator=(const StepReadback&) = delete;

  // Enqueues the copy of what the sources hold by then. FailedPrecondition:
  // kSteps copies were not awaited yet.
  absl::Status Enqueue();
  // Waits for the oldest copy that was not awaited, and returns its numbers,
  // the sources one after the other. They are valid until the next Enqueue but
  // one. FailedPrecondition: there is none.
  absl::StatusOr<const float*> Await();

 private:
  StepReadback(const std::vector<kernels::ConstVector>& sources,
               kernels::Backend* backend);
  float* Slot(int64_t copy) const { return host_ + copy % kSteps * floats_; }

  const std::vector<kernels::ConstVector> sources_;
  kernels::Backend* const backend_;
  int64_t floats_ = 0;
  float* host_ = nullptr;
  int64_t enqueued_ = 0, awaited_ = 0;
  int64_t marks_[kSteps] = {};
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STEP_STEP_READBACK_H_
