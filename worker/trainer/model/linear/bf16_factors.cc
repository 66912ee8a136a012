// Products of linear layers with factors whose rows are bfloat16.
#include "worker/trainer/model/linear/bf16_factors.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {

using kernels::Activation;
using kernels::Bf16Matrix;
using kernels::ConstBf16Matrix;
using kernels::ProductBatch;

namespace {

constexpr int64_t kBytes = sizeof(uint16_t);

// A float whose halves are both the bfloat16 1.
float PairOfOnes() {
  constexpr uint32_t kBits = 0x3f803f80;
  float pair;
  std::memcpy(&pair, &kBits, sizeof(pair));
  return pair;
}

// The matrix `elements` behind m.
template <typename View>
View Behind(View m, int64_t elements) {
  m.data += elements;
  return m;
}

}  // namespace

Bf16Factors::Bf16Factors(const Plan& plan, const std::string& key,
                         std::vector<RankSpaceLinear*> layers)
    : plan_(plan),
      inputs_(layers.front()->A().rows),
      outputs_(layers.front()->PaddedB().cols) {
  for (RankSpaceLinear* layer : layers) {
    parts_.push_back(
        {layer, layer->rank(), layer->PaddedB().rows, ranks_, padded_});
    ranks_ += parts_.back().rank;
    padded_ += parts_.back().padded;
    equal_ &= layer->rank() == layers.front()->rank();
    has_silu_ |= layer->has_silu();
  }
  SavedMemory& whole = *plan.memory->whole();
  a_ = whole.Reserve(absl::StrCat(key, ".a"), inputs_ * ranks_ * kBytes);
  b_ = whole.Reserve(absl::StrCat(key, ".b"), padded_ * outputs_ * kBytes);
  // Whole floats, to be filled: the column of T~ behind each layer's ranks, and
  // its padding, are ones; products write the others.
  const int64_t t_bytes =
      (plan.max_rows * padded_ + 1) / 2 * int64_t{sizeof(float)};
  activated_ = plan.memory->ReserveFilled(absl::StrCat(key, ".t"), t_bytes,
                                          PairOfOnes());
  t_ = has_silu_ ? whole.Reserve(absl::StrCat(key, ".before_silu"), t_bytes)
                 : activated_;
  u_ =
      plan.workspace->Reserve("linear.u.bf16", plan.max_rows * ranks_ * kBytes);
}

template <typename F>
absl::Status Bf16Factors::ForEachCall(F f) const {
  if (equal_) return f(parts_.front(), static_cast<int64_t>(parts_.size()));
  for (const Part& part : parts_) RETURN_IF_ERROR(f(part, 1));
  return absl::OkStatus();
}

Bf16Matrix Bf16Factors::A(const Part& part) const {
  return Bf16Matrix(plan_.memory->whole()->Bf16(a_) + part.first_rank, inputs_,
                    part.rank, ranks_);
}

Bf16Matrix Bf16Factors::B(const Part& part) const {
  return Bf16Matrix(
      plan_.memory->whole()->Bf16(b_) + part.first_padded * outputs_,
      part.padded, outputs_);
}

Bf16Matrix Bf16Factors::T(SavedMemory::Piece piece, const Part& part,
                          int64_t first, int64_t rows, int64_t cols) const {
  return Bf16Matrix(
      plan_.memory->whole()->Bf16(piece) + first * padded_ + part.first_padded,
      rows, cols, padded_);
}

Bf16Matrix Bf16Factors::U(const Part& part, int64_t rows) const {
  return Bf16Matrix(plan_.workspace->Bf16(u_) + part.first_rank, rows,
                    part.rank, ranks_);
}

absl::Status Bf16Factors::Contract() {
  for (const Part& part : parts_) {
    RETURN_IF_ERROR(plan_.backend->Round(part.layer->A(), A(part)));
    RETURN_IF_ERROR(plan_.backend->Round(part.layer->PaddedB(), B(part)));
  }
  return absl::OkStatus();
}

absl::Status Bf16Factors::Project(int64_t first, ConstBf16Matrix x) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(ForEachCall([&](const Part& part, int64_t count) {
    return backend.GemmToBf16(false, false, x, A(part), 0,
                              T(t_, part, first, x.rows, part.rank),
                              {count, 0, part.rank, part.padded});
  }));
  if (!has_silu_) return absl::OkStatus();
  for (const Part& part : parts_) {
    const auto f =
        part.layer->has_silu() ? Activation::kSilu : Activation::kIdentity;
    RETURN_IF_ERROR(
        backend.ActivateBf16(f, T(t_, part, first, x.rows, part.rank),
                             T(activated_, part, first, x.rows, part.rank)));
  }
  return absl::OkStatus();
}

absl::Status Bf16Factors::Expand(int64_t first, Bf16Matrix y, int64_t step) {
  return ForEachCall([&](const Part& part, int64_t count) {
    const int64_t i = &part - parts_.data();
    return plan_.backend->GemmToBf16(
        false, false, T(activated_, part, first, y.rows, part.padded), B(part),
        0, Behind(y, i * step),
        {count, part.padded, part.padded * outputs_, step});
  });
}

absl::Status Bf16Factors::BackwardExpand(int64_t first, ConstBf16Matrix grad_y,
                                         int64_t step) {
  kernels::Backend& backend = *plan_.backend;
  const int64_t rows = grad_y.rows;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    RETURN_IF_ERROR(backend.GemmBf16(
        true, false, T(activated_, part, first, rows, part.padded),
        Behind(grad_y, static_cast<int64_t>(i) * step),
        part.layer->BetaOfGradB(), part.layer->padded_grad_b()));
  }
  RETURN_IF_ERROR(ForEachCall([&](const Part& part, int64_t count) {
    const int64_t i = &part - parts_.data();
    const Bf16Matrix b(B(part).data, part.rank, outputs_);
    return backend.GemmToBf16(false, true, Behind(grad_y, i * step), b, 0,
                              U(part, rows),
                              {count, step, part.padded * outputs_, part.rank});
  }));
  for (const Part& part : parts_) {
    if (!part.layer->has_silu()) continue;
    RETURN_IF_ERROR(backend.ActivateBackwardBf16(
        Activation::kSilu, T(t_, part, first, rows, part.rank), U(part, rows),
        U(part, rows)));
  }
  return absl::OkStatus();
}

absl::Status Bf16Factors::BackwardProject(ConstBf16Matrix x, Bf16Matrix grad_x,
                                          bool accumulate) {
  kernels::Backend& backend = *plan_.backend;
  for (const Part& part : parts_) {
    RETURN_IF_ERROR(backend.GemmBf16(true, false, x, U(part, x.rows),
                                     part.layer->BetaOfGradA(),
                                     part.layer->grad_a()));
  }
  const Bf16Matrix u(U(parts_.front(), x.rows).data, x.rows, ranks_);
  const Bf16Matrix a(A(parts_.front()).data, inputs_, ranks_);
  return backend.GemmToBf16(false, true, u, a, accumulate ? 1 : 0, grad_x, {});
}

}  // namespace comera::trainer
