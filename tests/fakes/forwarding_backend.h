// A backend that has another do its work.
#ifndef COMERA_TESTS_FAKES_FORWARDING_BACKEND_H_
#define COMERA_TESTS_FAKES_FORWARDING_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace comera::kernels {

// Every operation and copy becomes a call with a name, which a subclass runs
// when it wants to. `backend` outlives it.
class ForwardingBackend : public Backend {
 public:
  // Owns its arguments, but not the memory that they point to.
  using Operation = std::function<absl::Status()>;

  explicit ForwardingBackend(Backend* backend) : backend_(backend) {}

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return backend_->Allocate(bytes);
  }
  void Free(void* memory) override { backend_->Free(memory); }
  void Seal() override { backend_->Seal(); }
  absl::Status Unseal() override { return backend_->Unseal(); }
  absl::Status Synchronize() override { return backend_->Synchronize(); }
  absl::StatusOr<int64_t> FreeBytes() override { return backend_->FreeBytes(); }
  bool in_host_memory() const override { return backend_->in_host_memory(); }
  absl::Status BeginTogether() override { return backend_->BeginTogether(); }
  absl::Status EndTogether() override { return backend_->EndTogether(); }
  absl::Status CopyToDevice(void* to, const void* from,
                            int64_t bytes) override {
    return Call("CopyToDevice",
                [=] { return backend_->CopyToDevice(to, from, bytes); });
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override {
    return Call("CopyToHost",
                [=] { return backend_->CopyToHost(to, from, bytes); });
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    return Call("Copy", [=] { return backend_->Copy(to, from, bytes); });
  }
  absl::Status Fill(Vector x, float value) override {
    return Call("Fill", [=] { return backend_->Fill(x, value); });
  }
  absl::Status Gemm(bool transpose_a, bool transpose_b, float alpha,
                    ConstMatrix a, ConstMatrix b, float beta,
                    Matrix c) override {
    return Call("Gemm", [=] {
      return backend_->Gemm(transpose_a, transpose_b, alpha, a, b, beta, c);
    });
  }
  absl::Status GemmBias(bool transpose_b, ConstMatrix a, ConstMatrix b,
                        ConstVector bias, Matrix c) override {
    return Call("GemmBias",
                [=] { return backend_->GemmBias(transpose_b, a, b, bias, c); });
  }
  absl::Status Axpy(float alpha, ConstVector x, Vector y) override {
    return Call("Axpy", [=] { return backend_->Axpy(alpha, x, y); });
  }
  absl::Status Scale(float alpha, Vector x) override {
    return Call("Scale", [=] { return backend_->Scale(alpha, x); });
  }
  absl::Status ScaleByCount(float alpha, const float* count,
                            Vector x) override {
    return Call("ScaleByCount",
                [=] { return backend_->ScaleByCount(alpha, count, x); });
  }
  absl::Status AddBias(ConstVector bias, Matrix y) override {
    return Call("AddBias", [=] { return backend_->AddBias(bias, y); });
  }
  absl::Status BiasGradient(ConstMatrix grad_y, Vector grad_bias) override {
    return Call("BiasGradient",
                [=] { return backend_->BiasGradient(grad_y, grad_bias); });
  }
  absl::Status SwapMiddleAxes(int64_t a, int64_t b, int64_t c, int64_t d,
                              const float* in, float* out) override {
    return Call("SwapMiddleAxes",
                [=] { return backend_->SwapMiddleAxes(a, b, c, d, in, out); });
  }
  absl::Status FoldCore(ConstMatrix g, ConstVector d, float threshold,
                        Matrix h) override {
    return Call("FoldCore",
                [=] { return backend_->FoldCore(g, d, threshold, h); });
  }
  absl::Status FoldCoreBackward(ConstMatrix g, ConstVector d, float threshold,
                                ConstMatrix grad_h, Matrix grad_g,
                                Vector grad_d) override {
    return Call("FoldCoreBackward", [=] {
      return backend_->FoldCoreBackward(g, d, threshold, grad_h, grad_g,
                                        grad_d);
    });
  }
  absl::Status TtmLookup(const TtmTables& t, const float* left,
                         const float* right, const TtmPairs& pairs,
                         Matrix out) override {
    return Call("TtmLookup", [=] {
      return backend_->TtmLookup(t, left, right, pairs, out);
    });
  }
  absl::Status TtmLookupBackward(const TtmTables& t, const float* left,
                                 const float* right, const TtmPairs& pairs,
                                 ConstMatrix grad_out, float* grad_left,
                                 float* grad_right) override {
    return Call("TtmLookupBackward", [=] {
      return backend_->TtmLookupBackward(t, left, right, pairs, grad_out,
                                         grad_left, grad_right);
    });
  }
  absl::Status Activate(Activation f, ConstMatrix x, Matrix y) override {
    return Call("Activate", [=] { return backend_->Activate(f, x, y); });
  }
  absl::Status ActivateBackward(Activation f, ConstMatrix saved,
                                ConstMatrix grad_y, Matrix grad_x) override {
    return Call("ActivateBackward", [=] {
      return backend_->ActivateBackward(f, saved, grad_y, grad_x);
    });
  }
  absl::Status Dropout(const DropoutKey& key, ConstMatrix x,
                       Matrix y) override {
    return Call("Dropout", [=] { return backend_->Dropout(key, x, y); });
  }
  absl::Status ResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                 ConstMatrix residual, ConstVector gamma,
                                 ConstVector beta, float epsilon,
                                 Matrix normalised, Vector inverse_deviation,
                                 Matrix y) override {
    return Call("ResidualLayerNorm", [=] {
      return backend_->ResidualLayerNorm(key, x, residual, gamma, beta, epsilon,
                                         normalised, inverse_deviation, y);
    });
  }
  absl::Status ResidualLayerNormBackward(
      const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
      ConstVector inverse_deviation, ConstVector gamma, Matrix grad_x,
      Matrix grad_residual, Vector grad_gamma, Vector grad_beta) override {
    return Call("ResidualLayerNormBackward", [=] {
      return backend_->ResidualLayerNormBackward(
          key, grad_y, normalised, inverse_deviation, gamma, grad_x,
          grad_residual, grad_gamma, grad_beta);
    });
  }
  absl::Status GatherRows(ConstMatrix table, ConstIndices rows,
                          Matrix out) override {
    return Call("GatherRows",
                [=] { return backend_->GatherRows(table, rows, out); });
  }
  absl::Status SumRows(ConstMatrix table, ConstIndices rows,
                       ConstIndices offsets, Matrix out) override {
    return Call("SumRows",
                [=] { return backend_->SumRows(table, rows, offsets, out); });
  }
  absl::Status ScatterAddRows(ConstMatrix in, ConstIndices rows,
                              Matrix table) override {
    return Call("ScatterAddRows",
                [=] { return backend_->ScatterAddRows(in, rows, table); });
  }
  absl::Status PairwiseInteraction(int64_t vectors, ConstMatrix z,
                                   Matrix out) override {
    return Call("PairwiseInteraction",
                [=] { return backend_->PairwiseInteraction(vectors, z, out); });
  }
  absl::Status PairwiseInteractionBackward(int64_t vectors, ConstMatrix z,
                                           ConstMatrix grad_out,
                                           Matrix grad_z) override {
    return Call("PairwiseInteractionBackward", [=] {
      return backend_->PairwiseInteractionBackward(vectors, z, grad_out,
                                                   grad_z);
    });
  }
  absl::Status LayerNormOutput(const DropoutKey& key, ConstMatrix normalised,
                               ConstVector gamma, ConstVector beta,
                               Matrix y) override {
    return Call("LayerNormOutput", [=] {
      return backend_->LayerNormOutput(key, normalised, gamma, beta, y);
    });
  }
  absl::Status RankSpaceFfn(ConstMatrix t1, ConstMatrix b1, ConstMatrix a2,
                            Matrix t2, void* workspace) override {
    return Call("RankSpaceFfn", [=] {
      return backend_->RankSpaceFfn(t1, b1, a2, t2, workspace);
    });
  }
  absl::Status RankSpaceFfnBackward(ConstMatrix t1, ConstMatrix b1,
                                    ConstMatrix a2, ConstMatrix grad_t2,
                                    Matrix grad_t1, Matrix grad_b1,
                                    Matrix grad_a2, void* workspace) override {
    return Call("RankSpaceFfnBackward", [=] {
      return backend_->RankSpaceFfnBackward(t1, b1, a2, grad_t2, grad_t1,
                                            grad_b1, grad_a2, workspace);
    });
  }
  absl::Status ExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
                               ConstMatrix b, ConstMatrix residual,
                               ConstVector gamma, ConstVector beta,
                               float epsilon, Matrix normalised,
                               Vector inverse_deviation, Matrix y,
                               void* workspace) override {
    return Call("ExpandLayerNorm", [=] {
      return backend_->ExpandLayerNorm(key, t, b, residual, gamma, beta,
                                       epsilon, normalised, inverse_deviation,
                                       y, workspace);
    });
  }
  absl::Status ExpandLayerNormBackward(
      const DropoutKey& key, ConstMatrix t, ConstMatrix b, ConstMatrix grad_y,
      ConstMatrix normalised, ConstVector inverse_deviation, ConstVector gamma,
      Matrix grad_residual, Matrix grad_t, Matrix grad_b, Vector grad_gamma,
      Vector grad_beta, void* workspace) override {
    return Call("ExpandLayerNormBackward", [=] {
      return backend_->ExpandLayerNormBackward(
          key, t, b, grad_y, normalised, inverse_deviation, gamma,
          grad_residual, grad_t, grad_b, grad_gamma, grad_beta, workspace);
    });
  }
  absl::Status ProjectBackward(ConstMatrix x, ConstVector gamma,
                               ConstVector beta, ConstMatrix grad_t,
                               ConstMatrix a, Matrix grad_a, Matrix grad_x,
                               void* workspace) override {
    return Call("ProjectBackward", [=] {
      return backend_->ProjectBackward(x, gamma, beta, grad_t, a, grad_a,
                                       grad_x, workspace);
    });
  }
  absl::Status Attention(const AttentionShape& shape, const DropoutKey& key,
                         ConstIndices offsets, ConstMatrix q, ConstMatrix k,
                         ConstMatrix v, float* log_sum, Matrix out,
                         void* workspace) override {
    return Call("Attention", [=] {
      return backend_->Attention(shape, key, offsets, q, k, v, log_sum, out,
                                 workspace);
    });
  }
  absl::Status AttentionBackward(const AttentionShape& shape,
                                 const DropoutKey& key, ConstIndices offsets,
                                 ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                 const float* log_sum, ConstMatrix grad_out,
                                 Matrix grad_q, Matrix grad_k, Matrix grad_v,
                                 void* workspace) override {
    return Call("AttentionBackward", [=] {
      return backend_->AttentionBackward(shape, key, offsets, q, k, v, log_sum,
                                         grad_out, grad_q, grad_k, grad_v,
                                         workspace);
    });
  }
  absl::Status RankSpaceAttention(const RankSpaceAttentionShape& shape,
                                  const DropoutKey& key, ConstIndices offsets,
                                  ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                  ConstMatrix c, ConstMatrix e, float* log_sum,
                                  Matrix out, void* workspace) override {
    return Call("RankSpaceAttention", [=] {
      return backend_->RankSpaceAttention(shape, key, offsets, q, k, v, c, e,
                                          log_sum, out, workspace);
    });
  }
  absl::Status RankSpaceAttentionBackward(
      const RankSpaceAttentionShape& shape, const DropoutKey& key,
      ConstIndices offsets, ConstMatrix q, ConstMatrix k, ConstMatrix v,
      ConstMatrix c, ConstMatrix e, const float* log_sum, ConstMatrix grad_out,
      Matrix grad_q, Matrix grad_k, Matrix grad_v, Matrix grad_c, Matrix grad_e,
      void* workspace) override {
    return Call("RankSpaceAttentionBackward", [=] {
      return backend_->RankSpaceAttentionBackward(
          shape, key, offsets, q, k, v, c, e, log_sum, grad_out, grad_q, grad_k,
          grad_v, grad_c, grad_e, workspace);
    });
  }
  absl::Status SoftmaxCrossEntropy(ConstMatrix logits, ConstIndices labels,
                                   Matrix grad_logits, float* totals) override {
    return Call("SoftmaxCrossEntropy", [=] {
      return backend_->SoftmaxCrossEntropy(logits, labels, grad_logits, totals);
    });
  }
  absl::Status SigmoidCrossEntropy(ConstMatrix logits, ConstIndices labels,
                                   Matrix grad_logits, float* totals) override {
    return Call("SigmoidCrossEntropy", [=] {
      return backend_->SigmoidCrossEntropy(logits, labels, grad_logits, totals);
    });
  }
  absl::Status SumOfSquares(ConstVector x, float* result) override {
    return Call("SumOfSquares",
                [=] { return backend_->SumOfSquares(x, result); });
  }
  absl::Status AdamW(const AdamWStep& step,
                     absl::Span<const AdamWSegment> segments, Vector parameters,
                     ConstVector gradients, Vector first_moment,
                     Vector second_moment) override {
    const std::vector<AdamWSegment> own(segments.begin(), segments.end());
    return Call("AdamW", [=] {
      return backend_->AdamW(step, own, parameters, gradients, first_moment,
                             second_moment);
    });
  }
  absl::Status BondNorms(ConstVector parameters,
                         absl::Span<const BondSpan> bonds, float threshold,
                         float* l1, float* count) override {
    const std::vector<BondSpan> own(bonds.begin(), bonds.end());
    return Call("BondNorms", [=] {
      return backend_->BondNorms(parameters, own, threshold, l1, count);
    });
  }
  absl::Status RelaxedSizeGradient(const SizeBond* bonds, int64_t count,
                                   const float* l1, const float* counts,
                                   float factor, float* coefficient) override {
    return Call("RelaxedSizeGradient", [=] {
      return backend_->RelaxedSizeGradient(bonds, count, l1, counts, factor,
                                           coefficient);
    });
  }
  absl::Status AddBondGradient(ConstVector parameters,
                               absl::Span<const BondSpan> bonds,
                               const float* coefficient, float threshold,
                               Vector gradients) override {
    const std::vector<BondSpan> own(bonds.begin(), bonds.end());
    return Call("AddBondGradient", [=] {
      return backend_->AddBondGradient(parameters, own, coefficient, threshold,
                                       gradients);
    });
  }

  int64_t RankSpaceFfnWorkspaceBytes(const RankSpaceFfnShape& shape) override {
    return backend_->RankSpaceFfnWorkspaceBytes(shape);
  }
  int64_t RankSpaceStreamWorkspaceBytes(int64_t rows, int64_t rank,
                                        int64_t cols) override {
    return backend_->RankSpaceStreamWorkspaceBytes(rows, rank, cols);
  }
  int64_t AttentionWorkspaceBytes(const AttentionShape& shape) override {
    return backend_->AttentionWorkspaceBytes(shape);
  }
  int64_t RankSpaceAttentionWorkspaceBytes(
      const RankSpaceAttentionShape& shape) override {
    return backend_->RankSpaceAttentionWorkspaceBytes(shape);
  }

 protected:
  virtual absl::Status Call(const std::string& name, Operation operation) = 0;
  Backend* backend() const { return backend_; }

 private:
  Backend* const backend_;
};

}  // namespace comera::kernels

#endif  // COMERA_TESTS_FAKES_FORWARDING_BACKEND_H_
