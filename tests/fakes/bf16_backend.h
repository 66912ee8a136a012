// A CPU backend that keeps bfloat16 in memory.
#ifndef COMERA_TESTS_FAKES_BF16_BACKEND_H_
#define COMERA_TESTS_FAKES_BF16_BACKEND_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/fakes/forwarding_backend.h"

namespace comera::kernels {

inline float FromBf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float x;
  std::memcpy(&x, &wide, sizeof(x));
  return x;
}
// To nearest, ties to even.
inline uint16_t ToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Everything else is the CPU backend's, which it must outlive.
class Bf16Backend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  bool has_bf16() const override { return true; }
  absl::Status Round(ConstMatrix x, Bf16Matrix y) override {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.cols; ++j) At(y, i, j) = ToBf16(At(x, i, j));
    }
    return absl::OkStatus();
  }
  absl::Status GemmBf16(bool transpose_a, bool transpose_b, ConstBf16Matrix a,
                        ConstBf16Matrix b, float beta, Matrix c) override {
    const Floats left(a), right(b);
    return backend()->Gemm(transpose_a, transpose_b, 1, left.view(),
                           right.view(), beta, c);
  }
  absl::Status Widen(ConstBf16Matrix x, Matrix y) override {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.cols; ++j) At(y, i, j) = FromBf16(At(x, i, j));
    }
    return absl::OkStatus();
  }
  absl::Status GemmToBf16(bool transpose_a, bool transpose_b, ConstBf16Matrix a,
                          ConstBf16Matrix b, float beta, Bf16Matrix c,
                          const ProductBatch& batch) override {
    for (int64_t n = 0; n < batch.count; ++n) {
      const Floats left(a), right(b);
      Floats sums(c);
      const absl::Status status =
          backend()->Gemm(transpose_a, transpose_b, 1, left.view(),
                          right.view(), beta, sums.view());
      if (!status.ok()) return status;
      sums.RoundTo(c);
      a.data += batch.a_step;
      b.data += batch.b_step;
      c.data += batch.c_step;
    }
    return absl::OkStatus();
  }
  // These widen their operands and round their results.
  absl::Status ResidualLayerNormBf16(const DropoutKey& key, ConstBf16Matrix x,
                                     ConstBf16Matrix residual,
                                     ConstVector gamma, ConstVector beta,
                                     float epsilon, Bf16Matrix normalised,
                                     Vector inverse_deviation,
                                     Bf16Matrix y) override {
    const Floats in(x), add(residual);
    Floats kept(normalised), out(y);
    const absl::Status status = backend()->ResidualLayerNorm(
        key, in.view(), add.view(), gamma, beta, epsilon, kept.view(),
        inverse_deviation, out.view());
    kept.RoundTo(normalised);
    out.RoundTo(y);
    return status;
  }
  absl::Status ResidualLayerNormBackwardBf16(
      const DropoutKey& key, ConstBf16Matrix grad_y, ConstBf16Matrix normalised,
      ConstVector inverse_deviation, ConstVector gamma, Bf16Matrix grad_x,
      Bf16Matrix grad_residual, Vector grad_gamma, Vector grad_beta) override {
    const Floats in(grad_y), kept(normalised);
    Floats x(grad_x), residual(grad_residual);
    const absl::Status status = backend()->ResidualLayerNormBackward(
        key, in.view(), kept.view(), inverse_deviation, gamma, x.view(),
        residual.view(), grad_gamma, grad_beta);
    x.RoundTo(grad_x);
    residual.RoundTo(grad_residual);
    return status;
  }
  absl::Status LayerNormOutputBf16(const DropoutKey& key,
                                   ConstBf16Matrix normalised,
                                   ConstVector gamma, ConstVector beta,
                                   Bf16Matrix y) override {
    const Floats kept(normalised);
    Floats out(y);
    const absl::Status status =
        backend()->LayerNormOutput(key, kept.view(), gamma, beta, out.view());
    out.RoundTo(y);
    return status;
  }
  absl::Status AttentionBf16(const AttentionShape& shape, const DropoutKey& key,
                             ConstIndices offsets, ConstBf16Matrix q,
                             ConstBf16Matrix k, ConstBf16Matrix v,
                             float* log_sum, Bf16Matrix out,
                             void* workspace) override {
    const Floats query(q), keys(k), values(v);
    Floats context(out);
    const absl::Status status =
        backend()->Attention(shape, key, offsets, query.view(), keys.view(),
                             values.view(), log_sum, context.view(), workspace);
    context.RoundTo(out);
    return status;
  }
  absl::Status AttentionBackwardBf16(
      const AttentionShape& shape, const DropoutKey& key, ConstIndices offsets,
      ConstBf16Matrix q, ConstBf16Matrix k, ConstBf16Matrix v,
      const float* log_sum, ConstBf16Matrix out, ConstBf16Matrix grad_out,
      Bf16Matrix grad_q, Bf16Matrix grad_k, Bf16Matrix grad_v,
      void* workspace) override {
    const Floats query(q), keys(k), values(v), context(out), grads(grad_out);
    Floats to_query(grad_q), to_keys(grad_k), to_values(grad_v);
    const absl::Status status = backend()->AttentionBackward(
        shape, key, offsets, query.view(), keys.view(), values.view(), log_sum,
        context.view(), grads.view(), to_query.view(), to_keys.view(),
        to_values.view(), workspace);
    to_query.RoundTo(grad_q);
    to_keys.RoundTo(grad_k);
    to_values.RoundTo(grad_v);
    return status;
  }
  absl::Status ActivateBf16(Activation f, ConstBf16Matrix x,
                            Bf16Matrix y) override {
    const Floats in(x);
    Floats out(y);
    const absl::Status status = backend()->Activate(f, in.view(), out.view());
    out.RoundTo(y);
    return status;
  }
  absl::Status ActivateBackwardBf16(Activation f, ConstBf16Matrix saved,
                                    ConstBf16Matrix grad_y,
                                    Bf16Matrix grad_x) override {
    const Floats in(saved), grad(grad_y);
    Floats out(grad_x);
    const absl::Status status =
        backend()->ActivateBackward(f, in.view(), grad.view(), out.view());
    out.RoundTo(grad_x);
    return status;
  }

 protected:
  absl::Status Call(const std::string&, Operation operation) override {
    return operation();
  }

 private:
  // A copy of a matrix as floats; null of a null.
  class Floats {
   public:
    explicit Floats(const ConstBf16Matrix& m)
        : rows_(m.rows),
          cols_(m.cols),
          values_(m.data == nullptr ? 0 : m.rows * m.cols) {
      for (size_t i = 0; i < values_.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        values_[i] = FromBf16(At(m, at / cols_, at % cols_));
      }
    }
    Matrix view() {
      return Matrix(values_.empty() ? nullptr : values_.data(), rows_, cols_);
    }
    ConstMatrix view() const { return const_cast<Floats*>(this)->view(); }
    void RoundTo(Bf16Matrix m) const {
      for (size_t i = 0; i < values_.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        At(m, at / cols_, at % cols_) = ToBf16(values_[i]);
      }
    }

   private:
    int64_t rows_, cols_;
    std::vector<float> values_;
  };

  template <typename T>
  static T& At(const MatrixView<T>& m, int64_t i, int64_t j) {
    return m.data[i * m.stride + j];
  }
};

// The same in the role of a device, so that models take its paths.
class Bf16Device : public Bf16Backend {
 public:
  using Bf16Backend::Bf16Backend;
  bool in_host_memory() const override { return false; }
};

}  // namespace comera::kernels

#endif  // COMERA_TESTS_FAKES_BF16_BACKEND_H_
