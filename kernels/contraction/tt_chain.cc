// Builds the prefix and the suffix of a layer, and their gradients.
#include "kernels/contraction/tt_chain.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/contraction/tt_build_order.h"

namespace comera::kernels {
namespace {

absl::Status CheckCount(const TtShape& shape, size_t cores) {
  if (static_cast<int>(cores) == shape.order()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(cores, " cores for order ", shape.order()));
}

absl::Status CheckGradient(const char* name, ConstMatrix grad, int64_t rows,
                           int64_t cols) {
  if (grad.rows == rows && grad.cols == cols && grad.stride == cols) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "gradient of the ", name, " is ", grad.rows, "x", grad.cols,
      " with stride ", grad.stride, ", expected contiguous ", rows, "x", cols));
}

// Writes the product also where it is a core as it is.
absl::Status ProductTo(const TtProduct& product, Backend* backend,
                       TtChain::Cores cores, float* inner, float* result) {
  if (!product.is_core()) {
    return product.Forward(backend, cores, inner, result);
  }
  return backend->Copy(result, cores[product.first()],
                       product.size() * int64_t{sizeof(float)});
}

}  // namespace

absl::StatusOr<TtChain> TtChain::Create(TtShape shape) {
  RETURN_IF_ERROR(ValidateShape(shape));
  return TtChain(std::move(shape));
}

TtChain::TtChain(TtShape shape)
    : shape_(std::move(shape)),
      prefix_(shape_, TtBuildOrder(shape_), 0, shape_.inputs()),
      suffix_(shape_, TtBuildOrder(shape_), shape_.inputs(), shape_.order()) {}

absl::Status TtChain::Forward(Backend* backend, Cores cores, float* inner,
                              float* a, float* b) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(ProductTo(prefix_, backend, cores, inner, a));
  return ProductTo(suffix_, backend, cores, inner + prefix_.inner_size(), b);
}

absl::Status TtChain::Rebuild(Backend* backend, Cores cores,
                              float* inner) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(prefix_.Rebuild(backend, cores, inner));
  return suffix_.Rebuild(backend, cores, inner + prefix_.inner_size());
}

absl::Status TtChain::PrefixBackward(Backend* backend, Cores cores,
                                     const float* inner,
                                     ConstMatrix grad_prefix,
                                     absl::Span<float* const> grad_cores,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(CheckCount(shape_, grad_cores.size()));
  RETURN_IF_ERROR(
      CheckGradient("prefix", grad_prefix, shape_.Rows(), shape_.MiddleRank()));
  return prefix_.Backward(backend, cores, inner, grad_prefix.data, grad_cores,
                          workspace);
}

absl::Status TtChain::SuffixBackward(Backend* backend, Cores cores,
                                     const float* inner,
                                     ConstMatrix grad_suffix,
                                     absl::Span<float* const> grad_cores,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(CheckCount(shape_, grad_cores.size()));
  RETURN_IF_ERROR(
      CheckGradient("suffix", grad_suffix, shape_.MiddleRank(), shape_.Cols()));
  return suffix_.Backward(backend, cores, inner + prefix_.inner_size(),
                          grad_suffix.data, grad_cores, workspace);
}

}  // namespace comera::kernels
