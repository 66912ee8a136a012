// Compares the memory that a job needs with its device's, before any is taken.
#ifndef COMERA_WORKER_TRAINER_PLANNING_MEMORY_CHECK_H_
#define COMERA_WORKER_TRAINER_PLANNING_MEMORY_CHECK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/planning/model_plan.h"

namespace comera::trainer {

// The memory that one member holds on the backend while it trains.
struct MemoryNeed {
  int64_t bytes = 0;
  // The bytes of parameters and optimiser state among them, which checkpoints
  // hold.
  int64_t state_bytes = 0;
  // The names and bytes of its parts, the largest first.
  std::vector<std::pair<std::string, int64_t>> parts;
};

// Plans the model for `batch_size` samples, those of one part of a batch
// (training.accumulate), on a backend that only counts; what workspace
// operations need is asked of `backend`, which is not changed.
// InvalidArgument: impossible configuration.
absl::StatusOr<MemoryNeed> PredictMemory(const v1::JobSpec& spec,
                                         const ModelConfig& config,
                                         int64_t batch_size,
                                         const ModelFactory& factory,
                                         kernels::Backend* backend);

// The need of the phase of `spec` that needs most. `config` has the ranks to
// begin with. Errors of PredictMemory.
absl::StatusOr<MemoryNeed> LargestNeed(const v1::JobSpec& spec,
                                       const ModelConfig& config,
                                       int world_size,
                                       const ModelFactory& factory,
                                       kernels::Backend* backend);

// Compares the phase of `spec` that needs most with what `backend` has free.
// `config` has the ranks to begin with. ResourceExhausted: it does not fit; the
// message gives both sizes, the three largest parts, the largest batch that
// would fit, and in how many parts the whole one would.
absl::Status CheckMemory(const v1::JobSpec& spec, const ModelConfig& config,
                         int world_size, const ModelFactory& factory,
                         kernels::Backend* backend);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PLANNING_MEMORY_CHECK_H_
