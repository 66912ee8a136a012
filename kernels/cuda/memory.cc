// Allocates device and page-locked memory, and copies between them.
#include <algorithm>
#include <cstring>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int64_t kLeastScratchBytes = 4096;

absl::Status CheckCopy(const void* to, const void* from, int64_t bytes) {
  RETURN_IF_ERROR(CheckMemory("Copy", "to", to, bytes));
  return CheckMemory("Copy", "from", from, bytes);
}

}  // namespace

absl::Status CudaBackend::CheckNotCapturing(const char* what) const {
  if (!capturing_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " while a graph is recorded"));
}

absl::StatusOr<void*> CudaBackend::Allocate(int64_t bytes) {
  RETURN_IF_ERROR(CheckMemory("Allocate", "memory", "", bytes));
  RETURN_IF_ERROR(CheckNotCapturing("Allocate"));
  if (sealed_) {
    return absl::FailedPreconditionError(
        absl::StrCat("allocation of ", bytes, " bytes in a planned step"));
  }
  ASSIGN_OR_RETURN(const int64_t left, FreeBytes());
  const auto exhausted = [&] {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes: ", left,
                     " bytes are left on the device"));
  };
  if (bytes > left) return exhausted();
  // An allocation of nothing has an address too.
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, size);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the next call need not fail
    return exhausted();
  }
  if (code != cudaSuccess) return CudaStatus(code, "cudaMalloc");
  if (const cudaError_t zeroed = cudaMemsetAsync(memory, 0, size, stream_);
      zeroed != cudaSuccess) {
    cudaFree(memory);
    return CudaStatus(zeroed, "cudaMemsetAsync");
  }
  allocations_[memory] = bytes;
  allocated_bytes_ += bytes;
  return memory;
}

void CudaBackend::Free(void* memory) {
  const auto found = allocations_.find(memory);
  if (found == allocations_.end()) return;
  allocated_bytes_ -= found->second;
  allocations_.erase(found);
  // cudaFree waits until the device no longer uses the memory.
  cudaFree(memory);
}

absl::Status CudaBackend::Unseal() {
  sealed_ = false;
  return absl::OkStatus();
}

absl::StatusOr<void*> CudaBackend::ScratchMemory(int64_t bytes) {
  if (bytes > kMostScratchBytes) {
    return absl::InternalError(
        absl::StrCat("an operation asks for ", bytes, " bytes of scratch"));
  }
  if (scratch_.empty() || bytes > scratch_bytes_) {
    RETURN_IF_ERROR(CheckNotCapturing("more scratch memory"));
    const auto size = static_cast<int64_t>(absl::bit_ceil(
        static_cast<uint64_t>(std::max(bytes, kLeastScratchBytes))));
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, static_cast<size_t>(size));
    if (code != cudaSuccess) {
      cudaGetLastError();  // the next launch need not fail
      return CudaStatus(code, "scratch memory");
    }
    scratch_.push_back(memory);
    scratch_bytes_ = size;
  }
  return scratch_.back();
}

absl::StatusOr<int64_t> CudaBackend::FreeBytes() {
  size_t free = 0, total = 0;
  RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free, &total));
  int64_t left = static_cast<int64_t>(free);
  if (options_.memory_limit_bytes > 0) {
    left = std::min(left, options_.memory_limit_bytes - allocated_bytes_);
  }
  return left;
}

absl::StatusOr<char*> CudaBackend::Stage(int64_t bytes) {
  if (staged_bytes_ + bytes > kStagingBytes) {
    RETURN_IF_CUDA_ERROR(cudaEventRecord(staged_[half_], stream_));
    half_ = 1 - half_;
    staged_bytes_ = 0;
    RETURN_IF_CUDA_ERROR(cudaEventSynchronize(staged_[half_]));
  }
  char* at = staging_ + half_ * kStagingBytes + staged_bytes_;
  staged_bytes_ += (bytes + 63) / 64 * 64;
  return at;
}

absl::Status CudaBackend::CopyToDevice(void* to, const void* from,
                                       int64_t bytes) {
  RETURN_IF_ERROR(CheckCopy(to, from, bytes));
  RETURN_IF_ERROR(CheckNotCapturing("CopyToDevice"));
  // The caller's memory is its own again when this returns.
  for (int64_t at = 0; at < bytes; at += kStagingBytes) {
    const int64_t count = std::min(kStagingBytes, bytes - at);
    ASSIGN_OR_RETURN(char* const staged, Stage(count));
    std::memcpy(staged, static_cast<const char*>(from) + at, count);
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(static_cast<char*>(to) + at, staged,
                                         count, cudaMemcpyHostToDevice,
                                         stream_));
  }
  return absl::OkStatus();
}

absl::Status CudaBackend::CopyToHost(void* to, const void* from,
                                     int64_t bytes) {
  RETURN_IF_ERROR(CheckCopy(to, from, bytes));
  RETURN_IF_ERROR(CheckNotCapturing("CopyToHost"));
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
  RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::Status CudaBackend::Copy(void* to, const void* from, int64_t bytes) {
  RETURN_IF_ERROR(CheckCopy(to, from, bytes));
  if (bytes == 0) return absl::OkStatus();
  if (together_depth_ > 0) {
    together_.AddCopy(to, from, bytes, stream_);
    return absl::OkStatus();
  }
  RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  return absl::OkStatus();
}

absl::Status CudaBackend::Synchronize() {
  RETURN_IF_ERROR(CheckNotCapturing("Synchronize"));
  RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::StatusOr<void*> CudaBackend::AllocateHost(int64_t bytes) {
  RETURN_IF_ERROR(CheckMemory("AllocateHost", "memory", "", bytes));
  RETURN_IF_ERROR(CheckNotCapturing("AllocateHost"));
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* memory = nullptr;
  RETURN_IF_CUDA_ERROR(cudaHostAlloc(&memory, size, cudaHostAllocDefault));
  std::memset(memory, 0, size);
  return memory;
}

void CudaBackend::FreeHost(void* memory) {
  if (memory != nullptr) cudaFreeHost(memory);
}

absl::Status CudaBackend::CopyToHostLater(void* to, const void* from,
                                          int64_t bytes) {
  RETURN_IF_ERROR(CheckCopy(to, from, bytes));
  RETURN_IF_ERROR(CheckNotCapturing("CopyToHostLater"));
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
  return absl::OkStatus();
}

}  // namespace comera::kernels
