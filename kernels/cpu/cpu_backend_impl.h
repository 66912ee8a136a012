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
#include "kernels/cpu/bf16_gemm.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::kernels {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options);

  // memory.cc
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  void Seal() override;
  absl::Status Unseal() override;
  absl::Status CopyToDevice(void* to, const void* from, int64_t bytes) override;
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  absl::Status Fill(Vector x, float value) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> FreeBytes() override;

  // gemm.cc
  absl::Status Gemm(bool transpose_a, bool transpose_b, float alpha,
                    ConstMatrix a, ConstMatrix b, float beta,
                    Matrix c) override;

  // linear.cc
  absl::Status Axpy(float alpha, ConstVector x, Vector y) override;
  absl::Status Scale(float alpha, Vector x) override;
  absl::Status ScaleByCount(float alpha, const float* count, Vector x) override;
  absl::Status AddBias(ConstVector bias, Matrix y) override;
  absl::Status BiasGradient(ConstMatrix grad_y, Vector grad_bias) override;
  absl::Status SwapMiddleAxes(int64_t a, int64_t b, int64_t c, int64_t d,
                              const float* in, float* out) override;

  // cores.cc
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

  // ttm.cc
  absl::Status TtmLookup(const TtmTables& t, const float* left,
                         const float* right, const TtmPairs& pairs,
                         Matrix out) override;
  absl::Status TtmLookupBackward(const TtmTables& t, const float* left,
                                 const float* right, const TtmPairs& pairs,
                                 ConstMatrix grad_out, float* grad_left,
                                 float* grad_right) override;

  // pointwise.cc
  absl::Status Activate(Activation f, ConstMatrix x, Matrix y) override;
  absl::Status ActivateBackward(Activation f, ConstMatrix saved,
                                ConstMatrix grad_y, Matrix grad_x) override;
  absl::Status Dropout(const DropoutKey& key, ConstMatrix x, Matrix y) override;

  // layer_norm.cc
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

  // rank_space_ffn.cc
  absl::Status RankSpaceFfn(ConstMatrix t1, ConstMatrix b1, ConstMatrix a2,
                            Matrix t2, void* workspace) override;
  absl::Status RankSpaceFfnBackward(ConstMatrix t1, ConstMatrix b1,
                                    ConstMatrix a2, ConstMatrix grad_t2,
                                    Matrix grad_t1, Matrix grad_b1,
                                    Matrix grad_a2, void* workspace) override;
  int64_t RankSpaceFfnWorkspaceBytes(const RankSpaceFfnShape& shape) override;

  // expand_layer_norm.cc
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
  // project_backward.cc
  absl::Status ProjectBackward(ConstMatrix x, ConstVector gamma,
                               ConstVector beta, ConstMatrix grad_t,
                               ConstMatrix a, Matrix grad_a, Matrix grad_x,
                               void* workspace) override;
  int64_t RankSpaceStreamWorkspaceBytes(int64_t rows, int64_t rank,
                                        int64_t cols) override;

  // rows.cc
  absl::Status GatherRows(ConstMatrix table, ConstIndices rows,
                          Matrix out) override;
  absl::Status SumRows(ConstMatrix table, ConstIndices rows,
                       ConstIndices offsets, Matrix out) override;
  absl::Status ScatterAddRows(ConstMatrix in, ConstIndices rows,
                              Matrix table) override;

  // interaction.cc
  absl::Status PairwiseInteraction(int64_t vectors, ConstMatrix z,
                                   Matrix out) override;
  absl::Status PairwiseInteractionBackward(int64_t vectors, ConstMatrix z,
                                           ConstMatrix grad_out,
                                           Matrix grad_z) override;

  // attention.cc
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

  // rank_space_attention.cc
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

  // cross_entropy.cc
  absl::Status SoftmaxCrossEntropy(ConstMatrix logits, ConstIndices labels,
                                   Matrix grad_logits, float* totals) override;

  // sigmoid_cross_entropy.cc
  absl::Status SigmoidCrossEntropy(ConstMatrix logits, ConstIndices labels,
                                   Matrix grad_logits, float* totals) override;

  // adamw.cc
  absl::Status SumOfSquares(ConstVector x, float* result) override;
  absl::Status AdamW(const AdamWStep& step,
                     absl::Span<const AdamWSegment> segments, Vector parameters,
                     ConstVector gradients, Vector first_moment,
                     Vector second_moment) override;

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
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_CPU_BACKEND_IMPL_H_
