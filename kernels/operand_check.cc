// Checks all operands of an operation at once.
#include "kernels/operand_check.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/shape_check.h"

namespace comera::kernels {

absl::Status CheckResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                    ConstMatrix residual, ConstVector gamma,
                                    ConstVector beta, ConstMatrix normalised,
                                    ConstVector inverse_deviation,
                                    ConstMatrix y) {
  constexpr char kOp[] = "ResidualLayerNorm";
  RETURN_IF_ERROR(CheckDropout(kOp, key));
  RETURN_IF_ERROR(CheckMatrix(kOp, "x", x));
  if (residual.data != nullptr) {
    RETURN_IF_ERROR(CheckMatrix(kOp, "residual", residual, x.rows, x.cols));
  }
  RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, x.cols));
  RETURN_IF_ERROR(CheckVector(kOp, "beta", beta, x.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "normalised", normalised, x.rows, x.cols));
  RETURN_IF_ERROR(
      CheckVector(kOp, "inverse_deviation", inverse_deviation, x.rows));
  return CheckMatrix(kOp, "y", y, x.rows, x.cols);
}

absl::Status CheckResidualLayerNormBackward(
    const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
    ConstVector inverse_deviation, ConstVector gamma, ConstMatrix grad_x,
    ConstMatrix grad_residual, ConstVector grad_gamma, ConstVector grad_beta) {
  constexpr char kOp[] = "ResidualLayerNormBackward";
  const int64_t rows = grad_y.rows, cols = grad_y.cols;
  RETURN_IF_ERROR(CheckDropout(kOp, key));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_y", grad_y));
  RETURN_IF_ERROR(CheckMatrix(kOp, "normalised", normalised, rows, cols));
  RETURN_IF_ERROR(
      CheckVector(kOp, "inverse_deviation", inverse_deviation, rows));
  RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, cols));
  if (grad_x.data != nullptr) {
    RETURN_IF_ERROR(CheckMatrix(kOp, "grad_x", grad_x, rows, cols));
  }
  if (grad_residual.data != nullptr) {
    RETURN_IF_ERROR(
        CheckMatrix(kOp, "grad_residual", grad_residual, rows, cols));
  }
  RETURN_IF_ERROR(CheckVector(kOp, "grad_gamma", grad_gamma, cols));
  return CheckVector(kOp, "grad_beta", grad_beta, cols);
}

absl::Status CheckLayerNormOutput(const DropoutKey& key, ConstMatrix normalised,
                                  ConstVector gamma, ConstVector beta,
                                  ConstMatrix y) {
  constexpr char kOp[] = "LayerNormOutput";
  RETURN_IF_ERROR(CheckDropout(kOp, key));
  RETURN_IF_ERROR(CheckMatrix(kOp, "normalised", normalised));
  RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, normalised.cols));
  if (beta.data != nullptr) {
    RETURN_IF_ERROR(CheckVector(kOp, "beta", beta, normalised.cols));
  }
  return CheckMatrix(kOp, "y", y, normalised.rows, normalised.cols);
}

absl::Status CheckExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
                                  ConstMatrix b, ConstMatrix residual,
                                  ConstVector gamma, ConstVector beta,
                                  ConstMatrix normalised,
                                  ConstVector inverse_deviation,
                                  ConstMatrix y) {
  constexpr char kOp[] = "ExpandLayerNorm";
  const int64_t rows = t.rows, cols = b.cols;
  RETURN_IF_ERROR(CheckDropout(kOp, key));
  RETURN_IF_ERROR(CheckExpand(kOp, t, b));
  RETURN_IF_ERROR(CheckMatrix(kOp, "residual", residual, rows, cols));
  RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, cols));
  RETURN_IF_ERROR(CheckVector(kOp, "beta", beta, cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "normalised", normalised, rows, cols));
  RETURN_IF_ERROR(
      CheckVector(kOp, "inverse_deviation", inverse_deviation, rows));
  return CheckMatrix(kOp, "y", y, rows, cols);
}

absl::Status CheckExpandLayerNormBackward(
    const DropoutKey& key, ConstMatrix t, ConstMatrix b, ConstMatrix grad_y,
    ConstMatrix normalised, ConstVector inverse_deviation, ConstVector gamma,
    ConstMatrix grad_residual, ConstMatrix grad_t, ConstMatrix grad_b,
    ConstVector grad_gamma, ConstVector grad_beta) {
  constexpr char kOp[] = "ExpandLayerNormBackward";
  const int64_t rows = t.rows, cols = b.cols;
  RETURN_IF_ERROR(CheckDropout(kOp, key));
  RETURN_IF_ERROR(CheckExpand(kOp, t, b));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_y", grad_y, rows, cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "normalised", normalised, rows, cols));
  RETURN_IF_ERROR(
      CheckVector(kOp, "inverse_deviation", inverse_deviation, rows));
  RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_residual", grad_residual, rows, cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_t", grad_t, rows, t.cols - 1));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_b", grad_b, t.cols, cols));
  RETURN_IF_ERROR(CheckVector(kOp, "grad_gamma", grad_gamma, cols));
  return CheckVector(kOp, "grad_beta", grad_beta, cols);
}

absl::Status CheckProjectBackward(ConstMatrix x, ConstVector gamma,
                                  ConstVector beta, ConstMatrix grad_t,
                                  ConstMatrix a, ConstMatrix grad_a,
                                  ConstMatrix grad_x) {
  constexpr char kOp[] = "ProjectBackward";
  const int64_t rows = x.rows, cols = x.cols;
  RETURN_IF_ERROR(CheckMatrix(kOp, "x", x));
  if (gamma.data != nullptr || beta.data != nullptr) {
    RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, cols));
    RETURN_IF_ERROR(CheckVector(kOp, "beta", beta, cols));
  }
  RETURN_IF_ERROR(CheckMatrix(kOp, "a", a));
  RETURN_IF_ERROR(CheckMatrix(kOp, "a", a, cols, a.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_t", grad_t, rows, a.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_a", grad_a, cols, a.cols));
  return CheckMatrix(kOp, "grad_x", grad_x, rows, cols);
}

absl::Status CheckRmsNorm(ConstMatrix x, ConstVector gamma,
                          ConstMatrix normalised, ConstVector inverse_deviation,
                          ConstMatrix y) {
  constexpr char kOp[] = "RmsNorm";
  RETURN_IF_ERROR(
      CheckSameShape(kOp, {"x", x}, {{"normalised", normalised}, {"y", y}}));
  RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, x.cols));
  return CheckVector(kOp, "inverse_deviation", inverse_deviation, x.rows);
}

absl::Status CheckRmsNormBackward(ConstMatrix grad_y, ConstMatrix normalised,
                                  ConstVector inverse_deviation,
                                  ConstVector gamma, ConstMatrix grad_x,
                                  ConstVector grad_gamma) {
  constexpr char kOp[] = "RmsNormBackward";
  RETURN_IF_ERROR(
      CheckSameShape(kOp, {"grad_y", grad_y},
                     {{"normalised", normalised}, {"grad_x", grad_x}}));
  RETURN_IF_ERROR(
      CheckVector(kOp, "inverse_deviation", inverse_deviation, grad_y.rows));
  RETURN_IF_ERROR(CheckVector(kOp, "gamma", gamma, grad_y.cols));
  return CheckVector(kOp, "grad_gamma", grad_gamma, grad_y.cols);
}

absl::Status CheckGatedBackward(Activation f, ConstMatrix gate, ConstMatrix up,
                                ConstMatrix grad_y, ConstMatrix grad_gate,
                                ConstMatrix grad_up) {
  constexpr char kOp[] = "GatedBackward";
  if (f == Activation::kTanh || f == Activation::kRelu) {
    return absl::InvalidArgumentError(
        absl::StrCat(kOp, ": the slope of the gate's function is not known ",
                     "from its input"));
  }
  return CheckSameShape(kOp, {"gate", gate},
                        {{"up", up},
                         {"grad_y", grad_y},
                         {"grad_gate", grad_gate},
                         {"grad_up", grad_up}});
}

absl::Status CheckRotate(int64_t head_width, float theta,
                         ConstIndices positions, ConstMatrix x) {
  constexpr char kOp[] = "Rotate";
  RETURN_IF_ERROR(CheckMatrix(kOp, "x", x));
  if (head_width < 0 || head_width % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kOp, ": head_width is ", head_width, ", which has no halves"));
  }
  if (head_width == 0 ? x.cols != 0 : x.cols % head_width != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kOp, ": x has ", x.cols, " columns for heads of ", head_width));
  }
  if (!(theta > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kOp, ": theta is ", theta, ", not above 0"));
  }
  if (positions.size != x.rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        kOp, ": ", positions.size, " positions for ", x.rows, " rows"));
  }
  return CheckMemory(kOp, "positions", positions.data, positions.size);
}

absl::Status CheckSameShape(const char* op, NamedMatrix first,
                            std::initializer_list<NamedMatrix> others) {
  RETURN_IF_ERROR(CheckMatrix(op, first.first, first.second));
  for (const auto& [name, matrix] : others) {
    RETURN_IF_ERROR(
        CheckMatrix(op, name, matrix, first.second.rows, first.second.cols));
  }
  return absl::OkStatus();
}

absl::Status CheckAttentionOperands(const char* op, const AttentionShape& shape,
                                    const DropoutKey& key, ConstIndices offsets,
                                    std::initializer_list<NamedMatrix> queries,
                                    std::initializer_list<NamedMatrix> keys,
                                    const float* log_sum,
                                    const void* workspace) {
  RETURN_IF_ERROR(CheckAttention(op, shape, offsets));
  RETURN_IF_ERROR(CheckDropout(op, key));
  for (const auto& [name, matrix] : queries) {
    RETURN_IF_ERROR(CheckMatrix(op, name, matrix, shape.tokens,
                                shape.heads * shape.head_width));
  }
  for (const auto& [name, matrix] : keys) {
    RETURN_IF_ERROR(CheckMatrix(op, name, matrix, shape.tokens,
                                shape.key_heads() * shape.head_width));
  }
  RETURN_IF_ERROR(
      CheckMemory(op, "log_sum", log_sum, shape.heads * shape.tokens));
  return CheckMemory(op, "workspace", workspace, shape.tokens);
}

absl::Status CheckCachedAttention(const CachedAttentionShape& s,
                                  ConstIndices first, ConstIndices count,
                                  int64_t most, ConstMatrix q, ConstMatrix keys,
                                  ConstMatrix values, ConstMatrix out) {
  constexpr char kOp[] = "CachedAttention";
  RETURN_IF_ERROR(CheckCachedHeads(kOp, s));
  RETURN_IF_ERROR(CheckMatrix(kOp, "q", q, q.rows, s.heads * s.key_width));
  RETURN_IF_ERROR(
      CheckMatrix(kOp, "keys", keys, keys.rows, s.key_heads * s.key_width));
  RETURN_IF_ERROR(CheckMatrix(kOp, "values", values, keys.rows,
                              s.value_heads * s.value_width));
  RETURN_IF_ERROR(
      CheckMatrix(kOp, "out", out, q.rows, s.heads * s.value_width));
  const std::pair<const char*, ConstIndices> lists[] = {{"first", first},
                                                        {"count", count}};
  for (const auto& [name, list] : lists) {
    if (list.size != q.rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          kOp, ": ", name, " has size ", list.size, ", expected ", q.rows));
    }
    RETURN_IF_ERROR(CheckMemory(kOp, name, list.data, list.size));
  }
  if (q.rows > 0 && (most < 1 || most > keys.rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kOp, ": most is ", most, " of ", keys.rows, " kept rows"));
  }
  return absl::OkStatus();
}

absl::Status CheckInteraction(const char* op, int64_t vectors, ConstMatrix z,
                              ConstMatrix out) {
  constexpr int64_t kMaxVectors = 1 << 16;
  if (vectors < 1 || vectors > kMaxVectors || z.cols % vectors != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": z: ", z.cols, " columns are not ", vectors, " vectors"));
  }
  RETURN_IF_ERROR(CheckMatrix(op, "z", z));
  return CheckMatrix(op, "out", out, z.rows,
                     z.cols / vectors + vectors * (vectors - 1) / 2);
}

absl::Status CheckCrossEntropy(const char* op, ConstMatrix logits,
                               ConstIndices labels, ConstMatrix grad_logits,
                               const float* totals) {
  RETURN_IF_ERROR(CheckMatrix(op, "logits", logits));
  if (labels.size != logits.rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": ", labels.size, " labels for ", logits.rows, " rows"));
  }
  RETURN_IF_ERROR(CheckMemory(op, "labels", labels.data, labels.size));
  RETURN_IF_ERROR(CheckMemory(op, "totals", totals, 3));
  if (grad_logits.data == nullptr) return absl::OkStatus();
  return CheckMatrix(op, "grad_logits", grad_logits, logits.rows, logits.cols);
}

}  // namespace comera::kernels
