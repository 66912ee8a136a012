// The class behind CreateCpuBackend; each group of operations has its file.
#ifndef COMERA_KERNELS_CPU_CPU_BACKEND_IMPL_H_
#define COMERA_KERNELS_CPU_CPU_BACKEND_IMPL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/products/bf16_gemm.h"
#include "kernels/cpu/products/transposed_gemm.h"

namespace comera::kernels {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options);

  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  void Seal() override;
  absl::Status Unseal() override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> FreeBytes() override;

  // The operations of Backend, which stand in the files of their groups.
#define OPERATION(name, parameters, arguments) \
  absl::Status name parameters override;
#define WORKSPACE_BYTES(name, parameters, arguments) \
  int64_t name parameters override;
#include "kernels/backend_operations.def"

 private:
  // Memory of the calling operation alone. It grows in the first step and is
  // then only reused.
  template <typename T>
  T* Scratch(int64_t count) {
    const size_t lines = (count * sizeof(T) + sizeof(Line) - 1) / sizeof(Line);
    if (scratch_.size() < lines) {
      grown_while_sealed_ |= sealed_;
      scratch_.resize(lines);
    }
    return reinterpret_cast<T*>(scratch_.data());
  }
  struct alignas(64) Line {
    char bytes[64];
  };

  const int threads_;
  const int64_t memory_limit_bytes_;
  int64_t allocated_bytes_ = 0;
  std::vector<Line> scratch_;
  bool sealed_ = false;
  bool grown_while_sealed_ = false;
  const std::unique_ptr<Bf16Gemm> bf16_;  // null unless asked for
  TransposedGemm transposed_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_CPU_BACKEND_IMPL_H_
