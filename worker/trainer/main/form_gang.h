// The gang of a task.
#ifndef COMERA_WORKER_TRAINER_MAIN_FORM_GANG_H_
#define COMERA_WORKER_TRAINER_MAIN_FORM_GANG_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::trainer {

// The MiB of a bucket of gradients (MemberOptions::bucket_mib) where nobody
// asks for others.
inline constexpr int64_t kUsualBucketMib = 32;

// Waits for the other members of the task and joins them: over NCCL where
// `backend`, which must outlive the communicator, computes on a GPU, else over
// Gloo. Null where there is one member. Errors are those of the factories;
// Unavailable: a member runs another version of the program, or was started
// with another `bucket_mib` (MemberOptions), so that it would sum the gradients
// in other pieces. Cancelled: `stop` became true while not all members were
// there.
absl::StatusOr<std::unique_ptr<collective::Communicator>> FormGang(
    const TrainerTask& task, const kernels::Backend& backend,
    int64_t bucket_mib, const std::atomic<bool>& stop);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MAIN_FORM_GANG_H_
