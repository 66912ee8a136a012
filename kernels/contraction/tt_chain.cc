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

}  // namespace

absl::StatusOr<TtChain> TtChain::Create(TtShape shape) {
  RETURN_IF_ERROR(ValidateShape(shape));
  return TtChain(std::move(shape));
}

TtChain::TtChain(TtShape shape)
    : shape_(std::move(shape)),
      prefix_(shape_, TtBuildOrder(shape_), 0, shape_.inputs()),
      suffix_(shape_, TtBuildOrder(shape_), shape_.inputs(), shape_.order()) {}

absl::Status TtChain::Forward(Backend* backend, Cores cores,
                              float* kept) const {
  RETURN_IF_ERROR(PrefixForward(backend, cores, kept));
  return SuffixForward(backend, cores, kept);
}

absl::Status TtChain::PrefixForward(Backend* backend, Cores cores,
                                    float* kept) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  return prefix_.Forward(backend, cores, kept);
}

absl::Status TtChain::SuffixForward(Backend* backend, Cores cores,
                                    float* kept) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  return suffix_.Forward(backend, cores, kept + prefix_.kept_size());
}

ConstMatrix TtChain::Prefix(Cores cores, const float* kept) const {
  return {prefix_.Result(cores, kept), shape_.Rows(), shape_.MiddleRank()};
}

ConstMatrix TtChain::Suffix(Cores cores, const float* kept) const {
  return {suffix_.Result(cores, kept + prefix_.kept_size()),
          shape_.MiddleRank(), shape_.Cols()};
}

absl::Status TtChain::PrefixBackward(Backend* backend, Cores cores,
                                     const float* kept, ConstMatrix grad_prefix,
                                     absl::Span<float* const> grad_cores,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(CheckCount(shape_, grad_cores.size()));
  RETURN_IF_ERROR(
      CheckGradient("prefix", grad_prefix, shape_.Rows(), shape_.MiddleRank()));
  return prefix_.Backward(backend, cores, kept, grad_prefix.data, grad_cores,
                          workspace);
}

absl::Status TtChain::SuffixBackward(Backend* backend, Cores cores,
                                     const float* kept, ConstMatrix grad_suffix,
                                     absl::Span<float* const> grad_cores,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(CheckCount(shape_, grad_cores.size()));
  RETURN_IF_ERROR(
      CheckGradient("suffix", grad_suffix, shape_.MiddleRank(), shape_.Cols()));
  return suffix_.Backward(backend, cores, kept + prefix_.kept_size(),
                          grad_suffix.data, grad_cores, workspace);
}

}  // namespace comera::kernels
