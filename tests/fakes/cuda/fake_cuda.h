// What a test can set and see of the CUDA that runs on the processor.
//
// All of it is of the process, except that the order of fibers is of the
// calling thread. Reset brings everything back to how a process starts.
#ifndef COMERA_TESTS_FAKES_CUDA_FAKE_CUDA_H_
#define COMERA_TESTS_FAKES_CUDA_FAKE_CUDA_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace comera::fake_cuda {

// In which order the threads of a block run between two barriers, and the
// blocks of a grid. A kernel that misses a barrier, or whose blocks depend on
// each other, gives different results.
enum class FiberOrder { kForward, kReverse, kShuffled };
void SetFiberOrder(FiberOrder order, uint64_t seed = 0);

struct FakeDevice {
  int count = 1;
  int major = 9, minor = 0;
  int multiprocessors = 132;
  // Shared memory that a block of threads may ask for: 227 KiB of compute
  // capability 9.0 and 10.0, 163 of 8.0, 99 of 8.6, 8.9 and 12.0. Launches that
  // want more fail.
  int64_t shared_bytes = 227 * 1024;
  int64_t total_bytes = int64_t{8} << 30;
};
void SetFakeDevice(const FakeDevice& device);

// The n-th launch (allocation, device or pinned) from now, counted from 1,
// fails with `code`. Codes that leave a real device unusable stay: every later
// call returns them, until Reset.
void FailLaunch(int64_t n, cudaError_t code);
void FailAllocation(int64_t n, cudaError_t code = cudaErrorMemoryAllocation);

struct Counts {
  int64_t launches = 0;        // kernels started or recorded
  int64_t in_turn = 0;         // kernels launched without overlapping
  int64_t graph_launches = 0;  // replays
  int64_t allocations = 0;
  int64_t device_bytes = 0;  // allocated now
  int64_t pinned_bytes = 0;
};
Counts CurrentCounts();

// What was enqueued on a stream while it was noted instead of done.
struct NotedWork {
  enum Kind { kKernel, kProduct, kCopy, kFill };
  Kind kind = kKernel;
  int64_t blocks = 0;  // a kernel's
  // A product of cuBLAS: by columns, so that n and m are the rows and columns
  // of a matrix by rows.
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;  // products of one call
  bool transpose_a = false, transpose_b = false;
  // Whether an operand's address, leading dimension or column is no multiple of
  // 16 bytes.
  bool misaligned = false;
  // Bytes that a copy within the device, or a fill, writes.
  int64_t bytes = 0;
};
// Until the next call, or Reset, work of all streams is appended to `list`, or
// with null done again. Copies from and to the host are neither noted nor done
// in between.
void NoteWork(std::vector<NotedWork>* list);

// Forgets faults and errors, sets the device and the order of the calling
// thread back. Memory stays allocated; counts of events start from 0.
void Reset();

}  // namespace comera::fake_cuda

#endif  // COMERA_TESTS_FAKES_CUDA_FAKE_CUDA_H_
