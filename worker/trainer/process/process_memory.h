// What a trainer process holds, measured and foretold.
#ifndef COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_
#define COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_

#include <cstdint>

namespace comera::trainer {

// Bytes of this process that are resident now; 0 if the system does not tell.
int64_t ResidentBytes();

// What operations and the math library take beside the plan, in all, on so
// many threads: packed operands and generated code of oneDNN, stacks, partial
// sums. From measurement (tests/worker/trainer:memory_test).
int64_t LibraryBytes(int threads);

// Copies on the host while a checkpoint is written of parameters and optimiser
// state of so many bytes: as they are, in the file's parts, and in its bytes.
int64_t CheckpointBytes(int64_t state_bytes);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_
