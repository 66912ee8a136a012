// What the parts of the fake CUDA share: errors, memory ranges, capture.
#ifndef COMERA_TESTS_FAKES_CUDA_FAKE_STATE_H_
#define COMERA_TESTS_FAKES_CUDA_FAKE_STATE_H_

#include <cuda_runtime.h>

#include <functional>
#include <mutex>

#include "tests/fakes/cuda/fake_cuda.h"

namespace comera::fake_cuda {

// Remembers a failure for cudaGetLastError, and for all later calls if a device
// does not survive it.
cudaError_t Return(cudaError_t code);
// The failure that stays, or cudaSuccess.
cudaError_t StickyError();

// Every call begins with it.
#define RETURN_IF_STICKY()                                             \
  do {                                                                 \
    if (const cudaError_t sticky = ::comera::fake_cuda::StickyError(); \
        sticky != cudaSuccess) {                                       \
      return ::comera::fake_cuda::Return(sticky);                      \
    }                                                                  \
  } while (false)

enum class MemoryKind { kPageable, kPinned, kDevice, kOverrun };
// kOverrun: begins in an allocation and ends behind it.
MemoryKind KindOf(const void* memory, size_t bytes);

// Counts down to an injected failure; cudaSuccess if it is not its turn.
cudaError_t CountLaunch(bool overlaps);
cudaError_t CountAllocation();
void CountGraphLaunch();
void AddBytes(int64_t device, int64_t pinned);

FakeDevice CurrentDevice();

// Whether work is noted instead of done (NoteWork); then `work` has been.
bool Note(const NotedWork& work);
bool IsNoting();

// Records `work` if the stream captures, else runs it unless work is noted.
cudaError_t Enqueue(cudaStream_t stream,
                    const std::function<cudaError_t()>& work);
bool IsCapturing(cudaStream_t stream);
// The capture of this stream, if any, is spoilt.
void SpoilCapture(cudaStream_t stream);
// The failure of calls that no capture of this thread allows (cudaMalloc,
// waiting for the device), or cudaSuccess.
cudaError_t UnsafeDuringCapture();

}  // namespace comera::fake_cuda

#endif  // COMERA_TESTS_FAKES_CUDA_FAKE_STATE_H_
