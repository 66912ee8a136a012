// The class behind CreateCudaBackend; each group of operations has its file.
#ifndef COMERA_KERNELS_CUDA_CUDA_BACKEND_IMPL_H_
#define COMERA_KERNELS_CUDA_CUDA_BACKEND_IMPL_H_

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scratch_size.h"
#include "kernels/cuda/small_tasks.h"

namespace comera::kernels {

// How cuBLAS multiplies operands that lie in memory as float32. In kBf16 they
// become TF32, not bfloat16, which is as fast on an H200 and more exact.
inline cublasComputeType_t ProductOfFloats(CudaPrecision precision) {
  return precision == CudaPrecision::kFp32 ? CUBLAS_COMPUTE_32F
                                           : CUBLAS_COMPUTE_32F_FAST_TF32;
}

// All work goes to one stream; what an operation needs beside its operands lies
// in scratch memory, which the next operation of the stream may use again.
// Scratch memory and cuBLAS are there from the first operation on that needs
// them: a model whose products all run in the engine's own kernels takes no
// memory for cuBLAS. A step is recorded after one like it has run, so that
// nothing is allocated while a graph is recorded.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : options_(options) {}
  ~CudaBackend() override;
  // Takes the device; once, before all else.
  absl::Status Start();

  // memory.cc
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  void Seal() override { sealed_ = true; }
  absl::Status Unseal() override;
  absl::Status Synchronize() override;
  absl::StatusOr<int64_t> FreeBytes() override;
  bool in_host_memory() const override { return false; }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override;
  void FreeHost(void* memory) override;
  absl::Status CopyToHostLater(void* to, const void* from,
                               int64_t bytes) override;

  // graphs.cc
  absl::StatusOr<int64_t> Mark() override;
  absl::Status Wait(int64_t mark) override;
  bool has_graphs() const override { return true; }
  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<StepGraph>> EndCapture() override;
  absl::Status Replay(const StepGraph& graph) override;

  // small_tasks.cc
  absl::Status BeginTogether() override;
  absl::Status EndTogether() override;

  // bf16_storage.cu.cc, bf16_gemm.cc
  bool has_bf16() const override {
    return options_.precision == CudaPrecision::kBf16;
  }

  // The default is two operations; cuBLASLt does both in one (gemm_bias.cc).
  absl::Status GemmBias(bool transpose_b, ConstMatrix a, ConstMatrix b,
                        ConstVector bias, Matrix c) override;

  // The operations of Backend, which stand in the files of their groups.
#define OPERATION(name, parameters, arguments) \
  absl::Status name parameters override;
#define BF16_OPERATION(name, parameters, arguments) \
  absl::Status name parameters override;
#define WORKSPACE_BYTES(name, parameters, arguments) \
  int64_t name parameters override;
#include "kernels/backend_operations.def"

  cudaStream_t stream() const { return stream_.handle; }

 private:
  static_assert(GroupedLaunches::kScratchFloats * int64_t{sizeof(float)} <=
                kMostScratchBytes);
  static constexpr int64_t kCublasBytes = int64_t{32} << 20;
  // Halves of the page-locked memory through which the host sends.
  static constexpr int64_t kStagingBytes = int64_t{4} << 20;
  static constexpr int kMarks = 8;

  LaunchShape Shape(dim3 grid, dim3 block, int64_t shared_bytes = 0) const {
    return {grid, block, shared_bytes, stream_};
  }
  // Scratch memory of the calling operation alone, for `count` elements: at
  // most kMostScratchBytes. FailedPrecondition: it would have to grow while a
  // graph is recorded.
  template <typename T>
  absl::StatusOr<T*> Scratch(int64_t count) {
    ASSIGN_OR_RETURN(void* const memory,
                     ScratchMemory(count * int64_t{sizeof(T)}));
    return static_cast<T*>(memory);
  }
  absl::StatusOr<void*> ScratchMemory(int64_t bytes);  // memory.cc
  // Where the blocks of split products meet.
  SplitMemory MemoryOfParts();
  // Creates cuBLAS and cuBLASLt before their first use. FailedPrecondition: a
  // graph is recorded.
  absl::Status StartCublas();
  // FailedPrecondition while a graph is recorded.
  absl::Status CheckNotCapturing(const char* what) const;
  // Room for `bytes` (at most kStagingBytes) of page-locked memory that the
  // device has read.
  absl::StatusOr<char*> Stage(int64_t bytes);
  // gemm.cc; of checked operands, none of them empty.
  absl::Status Multiply(bool transpose_a, bool transpose_b, float alpha,
                        ConstMatrix a, ConstMatrix b, float beta, Matrix c);
  // bf16_gemm.cc; `c` of the type is (m, n, stride), and sums over k.
  absl::Status MultiplyBf16(const char* name, bool transpose_a,
                            bool transpose_b, ConstBf16Matrix a,
                            ConstBf16Matrix b, float beta, cudaDataType type,
                            void* c, int64_t m, int64_t n, int64_t stride,
                            const ProductBatch& batch);

  const CudaOptions options_;
  KernelStream stream_;
  cublasHandle_t cublas_ = nullptr;
  cublasLtHandle_t cublas_lt_ = nullptr;
  bool cublas_ready_ = false;
  // What cuBLASLt chose: by transposition, rows, columns, inner size, strides.
  using ProductShape =
      std::tuple<bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  std::map<ProductShape, cublasLtMatmulAlgo_t> algorithms_;
  SmallTasks together_;
  int together_depth_ = 0;  // nested calls of BeginTogether
  // GroupedLaunches::kMostTiles zeros, by which the blocks of a launch find the
  // last of them; every launch leaves them 0.
  int* arrived_ = nullptr;
  // Memory that has grown: graphs use the former pieces, so all of them stay.
  // Each is at least twice as large as the one before.
  std::vector<void*> scratch_;
  int64_t scratch_bytes_ = 0;  // the size of the last
  void* cublas_workspace_ = nullptr;
  char* staging_ = nullptr;  // two halves
  cudaEvent_t staged_[2] = {};
  int half_ = 0;
  int64_t staged_bytes_ = 0;  // taken from the half in use
  cudaEvent_t marks_[kMarks] = {};
  int64_t next_mark_ = 0;
  std::unordered_map<void*, int64_t> allocations_;
  int64_t allocated_bytes_ = 0;
  bool sealed_ = false;
  bool capturing_ = false;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_CUDA_BACKEND_IMPL_H_
