// How a block of a kernel runs on the processor.
//
// Every thread of a block is a fiber; the blocks of a grid run one after the
// other on the host thread that launched it. A thread runs until it waits: for
// its block (SyncBlock), or for the other lanes of its warp (WarpCollective),
// of which the last to arrive does the work of all. The test ends with a
// message if not all threads of a block reach the same barrier, or not all
// lanes of the mask the same collective. In which order threads run between two
// barriers is chosen by SetFiberOrder (tests/fakes/cuda/fake_cuda.h).
#ifndef COMERA_TESTS_FAKES_CUDA_HOST_CUDA_BLOCK_H_
#define COMERA_TESTS_FAKES_CUDA_HOST_CUDA_BLOCK_H_

#include <functional>

#include "host_cuda/types.h"

inline thread_local uint3 threadIdx;
inline thread_local uint3 blockIdx;
inline thread_local dim3 blockDim;
inline thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace comera::fake_cuda {

// Where a thread waits, for messages and to tell two barriers apart.
struct CallSite {
  const char* what;
  const char* function;
  const char* file;
  int line;
};

struct BarrierVotes {
  int threads = 0;
  int yes = 0;
};

// Returns once all threads of the block came here, with their votes.
BarrierVotes SyncBlock(const CallSite& site, bool vote);

// The requests of the lanes of a warp; null for lanes not in the mask.
template <typename Request>
using Lanes = Request* const (&)[32];

// Returns once all lanes of `mask` came here with their requests; by then
// `resolve` saw all of them and wrote their results.
using Resolve = void (*)(void* const (&lanes)[32]);
void WarpCollective(const CallSite& site, uint32_t mask, void* request,
                    Resolve resolve);

int CurrentLane();

// Ends the process with `message` and where the current thread is.
[[noreturn]] void Fail(const char* message);

// Ends the kernel; as on a device, every later call returns
// cudaErrorLaunchFailure.
[[noreturn]] void Trap();

void* DynamicSharedMemory();

// Returns at once: grids run one after another. A thread of a grid that may be
// set up before its predecessors have ended (GridShape::overlaps) must come
// here before anything else that the runner sees, or the test ends.
void WaitForEarlierGrids();

// What one thread does that another may see only later (CopyAsync16).
struct LateCopy {
  void* to;
  const void* from;  // null: zeros
};
void AddLateCopy(const LateCopy& copy);
void CommitLateCopies();
void FinishLateCopies(int pending);

struct GridShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  bool overlaps = false;         // programmatic stream serialization
  const void* kernel = nullptr;  // named in messages
};
// Runs `thread` for every thread of the grid; false: it trapped.
bool RunGrid(const GridShape& shape, const std::function<void()>& thread);

}  // namespace comera::fake_cuda

#endif  // COMERA_TESTS_FAKES_CUDA_HOST_CUDA_BLOCK_H_
