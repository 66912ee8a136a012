// Measures and predicts the memory of a trainer process.
#include "worker/trainer/process/process_memory.h"

#include <unistd.h>

#include <fstream>

namespace comera::trainer {
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t LibraryBytes(int threads) {
  constexpr int64_t kOnce = int64_t{8} << 20;
  constexpr int64_t kPerThread = int64_t{3} << 20;
  return kOnce + threads * kPerThread;
}

int64_t CheckpointBytes(int64_t state_bytes) { return 3 * state_bytes; }

}  // namespace comera::trainer
