// Allocates aligned, zeroed memory within a limit, and copies and fills it.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int64_t kAlignment = 64;

// Stands in the line before every allocation.
struct Header {
  void* block;
  int64_t bytes;
};
static_assert(sizeof(Header) <= kAlignment);

Header* HeaderOf(void* memory) {
  return reinterpret_cast<Header*>(static_cast<char*>(memory) - kAlignment);
}

int64_t MachineBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : INT64_MAX;
}

int ThreadCount(int asked) {
  const int allowed = omp_get_max_threads();
  return asked > 0 ? std::min(asked, allowed) : allowed;
}

}  // namespace

std::unique_ptr<Backend> CreateCpuBackend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

CpuBackend::CpuBackend(const CpuOptions& options)
    : threads_(ThreadCount(options.threads)),
      memory_limit_bytes_(options.memory_limit_bytes > 0
                              ? options.memory_limit_bytes
                              : MachineBytes()),
      bf16_(options.bf16 ? std::make_unique<Bf16Gemm>() : nullptr) {}

absl::StatusOr<void*> CpuBackend::Allocate(int64_t bytes) {
  RETURN_IF_ERROR(CheckMemory("Allocate", "memory", "", bytes));
  if (sealed_) {
    return absl::FailedPreconditionError(
        absl::StrCat("allocation of ", bytes, " bytes in a planned step"));
  }
  const int64_t left = memory_limit_bytes_ - allocated_bytes_;
  // calloc maps large blocks lazily, and zeroed by the kernel.
  void* block =
      bytes <= left ? std::calloc(1, bytes + 2 * kAlignment) : nullptr;
  if (block == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes: ", left,
                     " bytes are left of ", memory_limit_bytes_));
  }
  const uintptr_t first = reinterpret_cast<uintptr_t>(block) + kAlignment;
  const uintptr_t offset =
      kAlignment + (kAlignment - first % kAlignment) % kAlignment;
  void* memory = static_cast<char*>(block) + offset;
  *HeaderOf(memory) = {block, bytes};
  allocated_bytes_ += bytes;
  return memory;
}

void CpuBackend::Free(void* memory) {
  if (memory == nullptr) return;
  const Header header = *HeaderOf(memory);
  allocated_bytes_ -= header.bytes;
  std::free(header.block);
}

absl::StatusOr<int64_t> CpuBackend::FreeBytes() {
  return memory_limit_bytes_ - allocated_bytes_;
}

void CpuBackend::Seal() {
  sealed_ = true;
  grown_while_sealed_ = false;
}

absl::Status CpuBackend::Unseal() {
  sealed_ = false;
  if (!grown_while_sealed_) return absl::OkStatus();
  return absl::InternalError("scratch memory grew in a planned step");
}

absl::Status CpuBackend::CopyToDevice(void* to, const void* from,
                                      int64_t bytes) {
  return Copy(to, from, bytes);
}

absl::Status CpuBackend::CopyToHost(void* to, const void* from, int64_t bytes) {
  return Copy(to, from, bytes);
}

absl::Status CpuBackend::Copy(void* to, const void* from, int64_t bytes) {
  RETURN_IF_ERROR(CheckMemory("Copy", "to", to, bytes));
  RETURN_IF_ERROR(CheckMemory("Copy", "from", from, bytes));
  if (bytes > 0) std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status CpuBackend::Fill(Vector x, float value) {
  RETURN_IF_ERROR(CheckMemory("Fill", "x", x.data, x.size));
  ParallelElements(threads_, x.size, 1, [&](int64_t begin, int64_t end) {
    std::fill(x.data + begin, x.data + end, value);
  });
  return absl::OkStatus();
}

}  // namespace comera::kernels
