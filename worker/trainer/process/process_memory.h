// The memory of a trainer process, measured and predicted.
#ifndef COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_
#define COMERA_WORKER_TRAINER_PROCESS_PROCESS_MEMORY_H_

#include <cstdint>

namespace comera::trainer {

// The resident bytes of this process; 0 if the system does not say.
int64_t ResidentBytes();

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
