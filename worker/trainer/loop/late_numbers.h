#ifndef COMERA_WORKER_TRAINER_LOOP_LATE_NUMBERS_H_
#define COMERA_WORKER_TRAINER_LOOP_LATE_NUMBERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace comera::trainer {

// Numbers that every step leaves on the device, brought to the host while the
// next step runs.
//
//   RETURN_IF_ERROR(numbers->Fetch());   // after step k's operations
//   ... step k + 1 is enqueued ...
//   ASSIGN_OR_RETURN(const float* values, numbers->Take());  // of step k
//
// Not thread-safe. The backend outlives it.
class LateNumbers {
 public:
  // Steps whose numbers can be on their way.
  static constexpr int64_t kSteps = 2;

  // `sources`: where the numbers are. ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<LateNumbers>> Create(
      const std::vector<kernels::ConstVector>& sources,
      kernels::Backend* backend);
  ~LateNumbers();
  LateNumbers(const LateNumbers&) = delete;
  LateNumbers& operator=(const LateNumbers&) = delete;

  // Enqueues the copy of what the sources hold by then. FailedPrecondition:
  // kSteps of them were not taken yet.
  absl::Status Fetch();
  // The numbers of the oldest Fetch that were not taken, the sources one after
  // the other; waits for them. Valid until the next Fetch but one.
  // FailedPrecondition: there are none.
  absl::StatusOr<const float*> Take();

 private:
  LateNumbers(const std::vector<kernels::ConstVector>& sources,
              kernels::Backend* backend);
  float* Slot(int64_t fetch) const { return host_ + fetch % kSteps * floats_; }

  const std::vector<kernels::ConstVector> sources_;
  kernels::Backend* const backend_;
  int64_t floats_ = 0;
  float* host_ = nullptr;
  int64_t fetched_ = 0, taken_ = 0;
  int64_t marks_[kSteps] = {};
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_LATE_NUMBERS_H_
