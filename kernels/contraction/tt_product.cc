// Multiplies consecutive cores in the order of their build tree.
#include "kernels/contraction/tt_product.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

constexpr int64_t kLineFloats = 16;  // products begin on cache lines

int64_t RoundUp(int64_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

int64_t Modes(const TtShape& shape, int first, int last) {
  int64_t product = 1;
  for (int k = first; k < last; ++k) product *= shape.Mode(k);
  return product;
}

}  // namespace

TtProduct::TtProduct(const TtShape& shape, const TtBuildOrder& order, int first,
                     int last)
    : first_(first),
      last_(last),
      size_(shape.LeftRank(first) * Modes(shape, first, last) *
            shape.RightRank(last - 1)) {
  AddJoins(shape, order, first, last);
}

TtProduct::Factor TtProduct::AddJoins(const TtShape& shape,
                                      const TtBuildOrder& order, int first,
                                      int last) {
  Factor made;
  made.core = first;
  if (last - first == 1) return made;
  const int split = order.Split(first, last);
  Join join;
  join.left = AddJoins(shape, order, first, split);
  join.right = AddJoins(shape, order, split, last);
  join.rows = shape.LeftRank(first) * Modes(shape, first, split);
  join.inner = shape.LeftRank(split);
  join.cols = Modes(shape, split, last) * shape.RightRank(last - 1);
  if (last - first < last_ - first_) {
    join.inner_offset = inner_size_;
    inner_size_ += RoundUp(join.rows * join.cols);
    join.grad_offset = workspace_size_;
    workspace_size_ += RoundUp(join.rows * join.cols);
  }
  made.join = static_cast<int>(joins_.size());
  joins_.push_back(join);
  return made;
}

absl::Status TtProduct::Multiply(Backend* backend, const Join& join,
                                 Cores cores, const float* inner,
                                 float* product) const {
  return backend->Gemm(
      false, false, 1,
      ConstMatrix(Value(join.left, cores, inner), join.rows, join.inner),
      ConstMatrix(Value(join.right, cores, inner), join.inner, join.cols), 0,
      Matrix(product, join.rows, join.cols));
}

absl::Status TtProduct::Rebuild(Backend* backend, Cores cores,
                                float* inner) const {
  for (size_t i = 0; i + 1 < joins_.size(); ++i) {
    RETURN_IF_ERROR(Multiply(backend, joins_[i], cores, inner,
                             inner + joins_[i].inner_offset));
  }
  return absl::OkStatus();
}

absl::Status TtProduct::Forward(Backend* backend, Cores cores, float* inner,
                                float* result) const {
  if (is_core()) return absl::OkStatus();
  RETURN_IF_ERROR(Rebuild(backend, cores, inner));
  return Multiply(backend, joins_.back(), cores, inner, result);
}

absl::Status TtProduct::Backward(Backend* backend, Cores cores,
                                 const float* inner, const float* grad_result,
                                 absl::Span<float* const> grad_cores,
                                 float* workspace) const {
  if (is_core()) {
    return backend->Copy(grad_cores[first_], grad_result,
                         size_ * int64_t{sizeof(float)});
  }
  const auto gradient = [&](const Factor& factor) {
    return factor.join < 0 ? grad_cores[factor.core]
                           : workspace + joins_[factor.join].grad_offset;
  };
  for (size_t i = joins_.size(); i-- > 0;) {
    const Join& join = joins_[i];
    const ConstMatrix grad(
        i + 1 == joins_.size() ? grad_result : workspace + join.grad_offset,
        join.rows, join.cols);
    RETURN_IF_ERROR(backend->Gemm(
        false, true, 1, grad,
        ConstMatrix(Value(join.right, cores, inner), join.inner, join.cols), 0,
        Matrix(gradient(join.left), join.rows, join.inner)));
    RETURN_IF_ERROR(backend->Gemm(
        true, false, 1,
        ConstMatrix(Value(join.left, cores, inner), join.rows, join.inner),
        grad, 0, Matrix(gradient(join.right), join.inner, join.cols)));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
