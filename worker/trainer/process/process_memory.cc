// Measures and predicts the memory of a trainer process.
#include "worker/trainer/process/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace comera::trainer {
namespace {

// A column of /proc/self/statm in bytes; 0 if the system does not say.
int64_t StatmBytes(int column) {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  for (int i = 0; i <= column; ++i) {
    if (!(file >> pages)) return 0;
  }
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t ResidentBytes() { return StatmBytes(1); }

int64_t DataBytes() { return StatmBytes(5); }

absl::Status LimitDataBytes(int64_t bytes) {
  struct rlimit limit = {};
  limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(bytes);
  if (setrlimit(RLIMIT_DATA, &limit) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("setrlimit(RLIMIT_DATA, ", bytes,
                                          "): ", std::strerror(errno)));
}

int64_t LimitOfPlan(int64_t held, int64_t planned, int threads) {
  constexpr int64_t kMore = int64_t{1} << 30;
  constexpr int64_t kStack = int64_t{16} << 20;
  const int64_t all = held + planned;
  return all + all / 2 + kMore + threads * kStack;
}

int64_t LibraryBytes(int threads) {
  constexpr int64_t kOnce = int64_t{8} << 20;
  constexpr int64_t kPerThread = int64_t{3} << 20;
  return kOnce + threads * kPerThread;
}

int64_t CheckpointBytes(int64_t state_bytes) { return 3 * state_bytes; }

}  // namespace comera::trainer
