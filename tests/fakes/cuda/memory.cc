// Device and pinned memory, and copies between them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/fakes/cuda/fake_state.h"

namespace comera::fake_cuda {
namespace {

struct Allocation {
  size_t bytes;
  MemoryKind kind;
};
struct Allocations {
  std::mutex mutex;
  std::map<const char*, Allocation> by_address;
};
Allocations& All() {
  static Allocations* const all = new Allocations;
  return *all;
}

// Only the beginning of large memory is filled: the pages behind it are not
// touched before they are used.
constexpr size_t kFilledBytes = size_t{1} << 20;

void FillWithNan(char* begin, size_t bytes) {
  const uint32_t nan = 0x7fa0dead;
  for (size_t i = 0; i < bytes; i += 4) {
    std::memcpy(begin + i, &nan, std::min<size_t>(bytes - i, 4));
  }
}

// Exactly the bytes asked for, so that AddressSanitizer sees an overrun.
cudaError_t Allocate(void** memory, size_t bytes, MemoryKind kind) {
  RETURN_IF_STICKY();
  if (const cudaError_t unsafe = UnsafeDuringCapture(); unsafe != cudaSuccess) {
    return Return(unsafe);
  }
  *memory = nullptr;
  if (const cudaError_t fault = CountAllocation(); fault != cudaSuccess) {
    return Return(fault);
  }
  if (bytes == 0) return cudaSuccess;
  if (kind == MemoryKind::kDevice) {
    const int64_t left =
        CurrentDevice().total_bytes - CurrentCounts().device_bytes;
    if (left < 0 || bytes > static_cast<uint64_t>(left)) {
      return Return(cudaErrorMemoryAllocation);
    }
  }
  if (posix_memalign(memory, 256, bytes) != 0) {
    return Return(cudaErrorMemoryAllocation);
  }
  char* const begin = static_cast<char*>(*memory);
  FillWithNan(begin, std::min(bytes, kFilledBytes));
  const bool device = kind == MemoryKind::kDevice;
  AddBytes(device ? bytes : 0, device ? 0 : bytes);
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().by_address[begin] = {bytes, kind};
  return cudaSuccess;
}

cudaError_t Free(void* memory, MemoryKind kind) {
  if (memory == nullptr) return cudaSuccess;
  if (const cudaError_t unsafe = UnsafeDuringCapture(); unsafe != cudaSuccess) {
    return Return(unsafe);
  }
  int64_t bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(All().mutex);
    const auto found = All().by_address.find(static_cast<char*>(memory));
    if (found == All().by_address.end() || found->second.kind != kind) {
      return Return(cudaErrorInvalidValue);
    }
    bytes = static_cast<int64_t>(found->second.bytes);
    All().by_address.erase(found);
  }
  const bool device = kind == MemoryKind::kDevice;
  AddBytes(device ? -bytes : 0, device ? 0 : -bytes);
  std::free(memory);
  return Return(StickyError());
}

bool Fits(MemoryKind memory, bool device) {
  return memory != MemoryKind::kOverrun &&
         device == (memory == MemoryKind::kDevice);
}

// Checks that the addresses are what `kind` promises, and that no pageable
// memory is used while capturing.
cudaError_t CheckCopy(MemoryKind to, MemoryKind from, cudaMemcpyKind kind,
                      cudaStream_t stream) {
  if (to == MemoryKind::kOverrun || from == MemoryKind::kOverrun) {
    return cudaErrorInvalidValue;
  }
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const bool to_device =
      kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault &&
      (!Fits(to, to_device) || !Fits(from, from_device))) {
    return cudaErrorInvalidValue;
  }
  if (IsCapturing(stream) &&
      (to == MemoryKind::kPageable || from == MemoryKind::kPageable)) {
    SpoilCapture(stream);
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

}  // namespace

MemoryKind KindOf(const void* memory, size_t bytes) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  const char* const begin = static_cast<const char*>(memory);
  auto found = All().by_address.upper_bound(begin);
  if (found == All().by_address.begin()) return MemoryKind::kPageable;
  --found;
  const size_t at = static_cast<size_t>(begin - found->first);
  if (at >= found->second.bytes) return MemoryKind::kPageable;
  return bytes > found->second.bytes - at ? MemoryKind::kOverrun
                                          : found->second.kind;
}

}  // namespace comera::fake_cuda

using comera::fake_cuda::KindOf;
using comera::fake_cuda::MemoryKind;
using comera::fake_cuda::Return;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return comera::fake_cuda::Allocate(memory, bytes, MemoryKind::kDevice);
}
cudaError_t cudaFree(void* memory) {
  return comera::fake_cuda::Free(memory, MemoryKind::kDevice);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return comera::fake_cuda::Allocate(memory, bytes, MemoryKind::kPinned);
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* memory) {
  return comera::fake_cuda::Free(memory, MemoryKind::kPinned);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  RETURN_IF_STICKY();
  const int64_t total = comera::fake_cuda::CurrentDevice().total_bytes;
  const int64_t used = comera::fake_cuda::CurrentCounts().device_bytes;
  *total_bytes = static_cast<size_t>(total);
  *free_bytes = static_cast<size_t>(total > used ? total - used : 0);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, bytes == 0 ? 0 : 1,
                           kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                              size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  RETURN_IF_STICKY();
  if (width > to_pitch || width > from_pitch) {
    return Return(cudaErrorInvalidValue);
  }
  if (width == 0 || height == 0) return cudaSuccess;
  const cudaError_t code = comera::fake_cuda::CheckCopy(
      KindOf(to, to_pitch * (height - 1) + width),
      KindOf(from, from_pitch * (height - 1) + width), kind, stream);
  if (code != cudaSuccess) return Return(code);
  if (comera::fake_cuda::IsNoting()) {
    comera::fake_cuda::NotedWork copy;
    copy.kind = comera::fake_cuda::NotedWork::kCopy;
    copy.bytes = static_cast<int64_t>(width * height);
    if (kind == cudaMemcpyDeviceToDevice) comera::fake_cuda::Note(copy);
    return cudaSuccess;
  }
  return comera::fake_cuda::Enqueue(stream, [=] {
    for (size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char*>(to) + row * to_pitch,
                   static_cast<const char*>(from) + row * from_pitch, width);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind) {
  const cudaError_t code = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return code == cudaSuccess ? comera::fake_cuda::StickyError() : code;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes,
                            cudaStream_t stream) {
  RETURN_IF_STICKY();
  if (bytes == 0) return cudaSuccess;
  const MemoryKind kind = KindOf(memory, bytes);
  if (kind == MemoryKind::kPageable || kind == MemoryKind::kOverrun) {
    return Return(cudaErrorInvalidValue);
  }
  comera::fake_cuda::NotedWork fill;
  fill.kind = comera::fake_cuda::NotedWork::kFill;
  fill.bytes = static_cast<int64_t>(bytes);
  if (comera::fake_cuda::Note(fill)) return cudaSuccess;
  return comera::fake_cuda::Enqueue(stream, [=] {
    std::memset(memory, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
