// The memory of a trainer process, measured and predicted.
#ifndef COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_
#define COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"

namespace comera::trainer {

// The resident bytes of this process; 0 if the system does not say.
int64_t ResidentBytes();

// The bytes of data that count against RLIMIT_DATA: what this process could
// write to and shares with nobody; 0 if the system does not say.
int64_t DataBytes();

// Lets allocations fail from so many bytes of data on, for good. Internal: the
// system refuses, e.g. because a lower limit holds.
absl::Status LimitDataBytes(int64_t bytes);

// The limit of a member that holds `held` bytes of data, plans to hold
// `planned` more, and computes on so many threads. The head-room (half as much
// again, a GiB and the threads' stacks) is for what no plan has: packed
// operands of the math library, decompositions, messages.
int64_t LimitOfPlan(int64_t held, int64_t planned, int threads);

// The bytes that operations and the math library need beside the plan on so
// many threads: packed operands and generated code of oneDNN, stacks, partial
// sums. The figures were measured (tests/worker/trainer/main:memory_test).
int64_t LibraryBytes(int threads);

// The bytes of the copies on the host while a checkpoint of so many bytes of
// parameters and optimiser state is written: as they are, in the file's parts,
// and in its bytes.
int64_t CheckpointBytes(int64_t state_bytes);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_
