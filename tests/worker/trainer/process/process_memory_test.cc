// Tests what a member may hold, in processes that try to hold more.
#include "worker/trainer/process/process_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <vector>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

// Takes and writes memory in a process of its own under this limit; returns 0,
// or 7 if that failed as lack of memory.
int Take(int64_t limit_mib, int64_t taken_mib) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (!LimitDataBytes(DataBytes() + limit_mib * kMib).ok()) _exit(1);
    try {
      std::vector<char> block(static_cast<size_t>(taken_mib * kMib), 'x');
      _exit(block[block.size() / 2] == 'x' ? 0 : 2);
    } catch (const std::bad_alloc&) {
      _exit(7);
    }
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(ProcessMemoryTest, BeyondTheLimitAllocationsFail) {
  EXPECT_EQ(Take(/*limit_mib=*/64, /*taken_mib=*/32), 0);
  EXPECT_EQ(Take(/*limit_mib=*/64, /*taken_mib=*/128), 7);
}

TEST(ProcessMemoryTest, APlanHasHeadRoom) {
  EXPECT_EQ(LimitOfPlan(0, 0, 0), 1024 * kMib);
  EXPECT_EQ(LimitOfPlan(100 * kMib, 300 * kMib, 2), (600 + 1024 + 32) * kMib);
}

TEST(ProcessMemoryTest, DataAreCounted) {
  const int64_t before = DataBytes();
  EXPECT_GT(before, 0);
  const std::vector<char> block(static_cast<size_t>(64 * kMib), 'x');
  EXPECT_GE(DataBytes() - before, 64 * kMib);
}

}  // namespace
}  // namespace comera::trainer
