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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/small_tasks.h"

namespace comera::kernels {

// All work goes to one stream; what an operation needs beside its operands lies
// in `scratch_`, which the next operation of the stream may use again.
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
  absl::Status CopyToDevice(void* to, const void* from, int64_t bytes) override;
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
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

  // gemm.cc
  absl::Status Gemm(bool transpose_a, bool transpose_b, float alpha,
                    ConstMatrix a, ConstMatrix b, float beta,
                    Matrix c) override;

  // gemm_bias.cc
  absl::Status GemmBias(bool transpose_b, ConstMatrix a, ConstMatrix b,
                        ConstVector bias, Matrix c) override;

  // linear.cu.cc
  absl::Status Fill(Vector x, float value) override;
  absl::Status Axpy(float alpha, ConstVector x, Vector y) override;
  absl::Status Scale(float alpha, Vector x) override;
  absl::Status ScaleByCount(float alpha, const float* count, Vector x) override;
  absl::Status AddBias(ConstVector bias, Matrix y) override;
  absl::Status BiasGradient(ConstMatrix grad_y, Vector grad_bias) override;
  absl::Status SwapMiddleAxes(int64_t a, int64_t b, int64_t c, int64_t d,
                              const float* in, float* out) override;

  // cores.cu.cc
  absl::Status FoldCore(ConstMatrix g, ConstVector d, float threshold,
                        Matrix h) override;
  absl::Status FoldCoreBackward(ConstMatrix g, ConstVector d, float threshold,
                                ConstMatrix grad_h, Matrix grad_g,
                                Vector grad_d) override;
  absl::Status BondNorms(ConstVector parameters,
                         absl::Span<const BondSpan> bonds, float threshold,
                         float* l1, float* count) override;
  absl::Status RelaxedSizeGradient(const SizeBond* bonds, int64_t count,
                                   const float* l1, const float* counts,
                                   float factor, float* coefficient) override;
  absl::Status AddBondGradient(ConstVector parameters,
                               absl::Span<const BondSpan> bonds,
                               const float* coefficient, float threshold,
                               Vector gradients) override;

  // ttm.cu.cc
  absl::Status TtmLookup(const TtmTables& t, const float* left,
                         const float* right, const TtmPairs& pairs,
                         Matrix out) override;
  absl::Status TtmLookupBackward(const TtmTables& t, const float* left,
                                 const float* right, const TtmPairs& pairs,
                                 ConstMatrix grad_out, float* grad_left,
                                 float* grad_right) override;

  // pointwise.cu.cc
  absl::Status Activate(Activation f, ConstMatrix x, Matrix y) override;
  absl::Status ActivateBackward(Activation f, ConstMatrix saved,
                                ConstMatrix grad_y, Matrix grad_x) override;
  absl::Status Dropout(const DropoutKey& key, ConstMatrix x, Matrix y) override;

  // layer_norm.cu.cc
  absl::Status ResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                 ConstMatrix residual, ConstVector gamma,
                                 ConstVector beta, float epsilon,
                                 Matrix normalised, Vector inverse_deviation,
                                 Matrix y) override;
  absl::Status ResidualLayerNormBackward(
      const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
      ConstVector inverse_deviation, ConstVector gamma, Matrix grad_x,
      Matrix grad_residual, Vector grad_gamma, Vector grad_beta) override;

  absl::Status LayerNormOutput(const DropoutKey& key, ConstMatrix normalised,
                               ConstVector gamma, ConstVector beta,
                               Matrix y) override;

  // rank_space_ffn.cu.cc
  absl::Status RankSpaceFfn(ConstMatrix t1, ConstMatrix b1, ConstMatrix a2,
                            Matrix t2, void* workspace) override;
  absl::Status RankSpaceFfnBackward(ConstMatrix t1, ConstMatrix b1,
                                    ConstMatrix a2, ConstMatrix grad_t2,
                                    Matrix grad_t1, Matrix grad_b1,
                                    Matrix grad_a2, void* workspace) override;
  int64_t RankSpaceFfnWorkspaceBytes(const RankSpaceFfnShape& shape) override;

  // expand_layer_norm.cu.cc
  absl::Status ExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
                               ConstMatrix b, ConstMatrix residual,
                               ConstVector gamma, ConstVector beta,
                               float epsilon, Matrix normalised,
                               Vector inverse_deviation, Matrix y,
                               void* workspace) override;
  absl::Status ExpandLayerNormBackward(
      const DropoutKey& key, ConstMatrix t, ConstMatrix b, ConstMatrix grad_y,
      ConstMatrix normalised, ConstVector inverse_deviation, ConstVector gamma,
      Matrix grad_residual, Matrix grad_t, Matrix grad_b, Vector grad_gamma,
      Vector grad_beta, void* workspace) override;
  // project_backward.cu.cc
  absl::Status ProjectBackward(ConstMatrix x, ConstVector gamma,
                               ConstVector beta, ConstMatrix grad_t,
                               ConstMatrix a, Matrix grad_a, Matrix grad_x,
                               void* workspace) override;
  int64_t RankSpaceStreamWorkspaceBytes(int64_t rows, int64_t rank,
                                        int64_t cols) override;

  // rows.cu.cc
  absl::Status GatherRows(ConstMatrix table, ConstIndices rows,
                          Matrix out) override;
  absl::Status SumRows(ConstMatrix table, ConstIndices rows,
                       ConstIndices offsets, Matrix out) override;
  absl::Status ScatterAddRows(ConstMatrix in, ConstIndices rows,
                              Matrix table) override;

  // interaction.cu.cc
  absl::Status PairwiseInteraction(int64_t vectors, ConstMatrix z,
                                   Matrix out) override;
  absl::Status PairwiseInteractionBackward(int64_t vectors, ConstMatrix z,
                                           ConstMatrix grad_out,
                                           Matrix grad_z) override;

  // attention.cu.cc
  absl::Status Attention(const AttentionShape& shape, const DropoutKey& key,
                         ConstIndices offsets, ConstMatrix q, ConstMatrix k,
                         ConstMatrix v, float* log_sum, Matrix out,
                         void* workspace) override;
  absl::Status AttentionBackward(const AttentionShape& shape,
                                 const DropoutKey& key, ConstIndices offsets,
                                 ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                 const float* log_sum, ConstMatrix grad_out,
                                 Matrix grad_q, Matrix grad_k, Matrix grad_v,
                                 void* workspace) override;
  int64_t AttentionWorkspaceBytes(const AttentionShape& shape) override;

  // rank_space_attention.cu.cc
  absl::Status RankSpaceAttention(const RankSpaceAttentionShape& shape,
                                  const DropoutKey& key, ConstIndices offsets,
                                  ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                  ConstMatrix c, ConstMatrix e, float* log_sum,
                                  Matrix out, void* workspace) override;
  absl::Status RankSpaceAttentionBackward(
      const RankSpaceAttentionShape& shape, const DropoutKey& key,
      ConstIndices offsets, ConstMatrix q, ConstMatrix k, ConstMatrix v,
      ConstMatrix c, ConstMatrix e, const float* log_sum, ConstMatrix grad_out,
      Matrix grad_q, Matrix grad_k, Matrix grad_v, Matrix grad_c, Matrix grad_e,
      void* workspace) override;
  int64_t RankSpaceAttentionWorkspaceBytes(
      const RankSpaceAttentionShape& shape) override;

  // cross_entropy.cu.cc
  absl::Status SoftmaxCrossEntropy(ConstMatrix logits, ConstIndices labels,
                                   Matrix grad_logits, float* totals) override;

  // sigmoid_cross_entropy.cu.cc
  absl::Status SigmoidCrossEntropy(ConstMatrix logits, ConstIndices labels,
                                   Matrix grad_logits, float* totals) override;

  // adamw.cu.cc
  absl::Status SumOfSquares(ConstVector x, float* result) override;
  absl::Status AdamW(const AdamWStep& step,
                     absl::Span<const AdamWSegment> segments, Vector parameters,
                     ConstVector gradients, Vector first_moment,
                     Vector second_moment) override;

  cudaStream_t stream() const { return stream_; }

 private:
  // Bytes of scratch memory, of which an operation may ask for all.
  static constexpr int64_t kScratchBytes = int64_t{32} << 20;
  static constexpr int64_t kCublasBytes = int64_t{32} << 20;
  // Halves of the page-locked memory through which the host sends.
  static constexpr int64_t kStagingBytes = int64_t{4} << 20;
  static constexpr int kMarks = 8;

  LaunchShape Shape(dim3 grid, dim3 block, int64_t shared_bytes = 0) const {
    return {grid, block, shared_bytes, stream_};
  }
  // Scratch memory of the calling operation alone. `count` is bounded by the
  // caller: at most kScratchBytes in all.
  template <typename T>
  T* Scratch(int64_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(scratch_) + offset_bytes);
  }
  // FailedPrecondition while a graph is recorded.
  absl::Status CheckNotCapturing(const char* what) const;
  // Room for `bytes` (at most kStagingBytes) of page-locked memory that the
  // device has read.
  absl::StatusOr<char*> Stage(int64_t bytes);
  // gemm.cc; of checked operands, none of them empty.
  absl::Status Multiply(bool transpose_a, bool transpose_b, float alpha,
                        ConstMatrix a, ConstMatrix b, float beta, Matrix c);

  const CudaOptions options_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
  cublasLtHandle_t cublas_lt_ = nullptr;
  // What cuBLASLt chose: by transposition, rows, columns, inner size, strides.
  using ProductShape =
      std::tuple<bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  std::map<ProductShape, cublasLtMatmulAlgo_t> algorithms_;
  SmallTasks together_;
  int together_depth_ = 0;  // of nested BeginTogether
  void* scratch_ = nullptr;
  void* cublas_workspace_ = nullptr;
  char* staging_ = nullptr;  // two halves
  cudaEvent_t staged_[2] = {};
  int half_ = 0;
  int64_t staged_bytes_ = 0;  // of the half in use
  cudaEvent_t marks_[kMarks] = {};
  int64_t next_mark_ = 0;
  std::unordered_map<void*, int64_t> allocations_;
  int64_t allocated_bytes_ = 0;
  bool sealed_ = false;
  bool capturing_ = false;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_CUDA_BACKEND_IMPL_H_
