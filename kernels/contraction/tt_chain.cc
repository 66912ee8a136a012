#include "kernels/contraction/tt_chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

constexpr int64_t kLineFloats = 16;  // products begin on cache lines

int64_t RoundUp(int64_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

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
      others_(shape_.order(), 1),
      offsets_(shape_.order(), 0) {
  const int inputs = shape_.inputs(), order = shape_.order();
  const auto keep = [&](int core, int64_t size) {
    offsets_[core] = kept_size_;
    kept_size_ += RoundUp(size);
  };
  for (int k = 1; k < inputs; ++k) {
    others_[k] = others_[k - 1] * shape_.Mode(k - 1);
    keep(k, others_[k] * shape_.Mode(k) * shape_.RightRank(k));
    largest_ = std::max(largest_, others_[k] * shape_.LeftRank(k));
  }
  for (int k = order - 2; k >= inputs; --k) {
    others_[k] = others_[k + 1] * shape_.Mode(k + 1);
    keep(k, others_[k] * shape_.Mode(k) * shape_.LeftRank(k));
    largest_ = std::max(largest_, others_[k] * shape_.RightRank(k));
  }
  largest_ = RoundUp(largest_);
}

const float* TtChain::Product(Cores cores, const float* kept, int core) const {
  const bool itself = core == 0 || core == shape_.order() - 1;
  return itself ? cores[core] : kept + offsets_[core];
}

absl::Status TtChain::Forward(Backend* backend, Cores cores,
                              float* kept) const {
  RETURN_IF_ERROR(PrefixForward(backend, cores, kept));
  return SuffixForward(backend, cores, kept);
}

absl::Status TtChain::PrefixForward(Backend* backend, Cores cores,
                                    float* kept) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  for (int k = 1; k < shape_.inputs(); ++k) {
    const int64_t left = shape_.LeftRank(k);
    const int64_t width = shape_.Mode(k) * shape_.RightRank(k);
    RETURN_IF_ERROR(backend->Gemm(
        false, false, 1,
        ConstMatrix(Product(cores, kept, k - 1), others_[k], left),
        ConstMatrix(cores[k], left, width), 0,
        Matrix(kept + offsets_[k], others_[k], width)));
  }
  return absl::OkStatus();
}

absl::Status TtChain::SuffixForward(Backend* backend, Cores cores,
                                    float* kept) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  for (int k = shape_.order() - 2; k >= shape_.inputs(); --k) {
    const int64_t right = shape_.RightRank(k);
    const int64_t height = shape_.LeftRank(k) * shape_.Mode(k);
    RETURN_IF_ERROR(backend->Gemm(
        false, false, 1, ConstMatrix(cores[k], height, right),
        ConstMatrix(Product(cores, kept, k + 1), right, others_[k]), 0,
        Matrix(kept + offsets_[k], height, others_[k])));
  }
  return absl::OkStatus();
}

ConstMatrix TtChain::Prefix(Cores cores, const float* kept) const {
  return {Product(cores, kept, shape_.inputs() - 1), shape_.Rows(),
          shape_.MiddleRank()};
}

ConstMatrix TtChain::Suffix(Cores cores, const float* kept) const {
  return {Product(cores, kept, shape_.inputs()), shape_.MiddleRank(),
          shape_.Cols()};
}

absl::Status TtChain::PrefixBackward(Backend* backend, Cores cores,
                                     const float* kept, ConstMatrix grad_prefix,
                                     absl::Span<float* const> grad_cores,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(CheckCount(shape_, grad_cores.size()));
  RETURN_IF_ERROR(
      CheckGradient("prefix", grad_prefix, shape_.Rows(), shape_.MiddleRank()));
  const float* grad = grad_prefix.data;
  for (int k = shape_.inputs() - 1; k > 0; --k) {
    const int64_t left = shape_.LeftRank(k);
    const int64_t width = shape_.Mode(k) * shape_.RightRank(k);
    const ConstMatrix grad_product(grad, others_[k], width);
    RETURN_IF_ERROR(backend->Gemm(
        true, false, 1,
        ConstMatrix(Product(cores, kept, k - 1), others_[k], left),
        grad_product, 0, Matrix(grad_cores[k], left, width)));
    // The first core is its own product; the others alternate two halves.
    float* next = k == 1 ? grad_cores[0] : workspace + (k % 2) * largest_;
    RETURN_IF_ERROR(backend->Gemm(false, true, 1, grad_product,
                                  ConstMatrix(cores[k], left, width), 0,
                                  Matrix(next, others_[k], left)));
    grad = next;
  }
  if (shape_.inputs() > 1) return absl::OkStatus();
  return backend->Copy(grad_cores[0], grad, shape_.CoreSize(0) * sizeof(float));
}

absl::Status TtChain::SuffixBackward(Backend* backend, Cores cores,
                                     const float* kept, ConstMatrix grad_suffix,
                                     absl::Span<float* const> grad_cores,
                                     float* workspace) const {
  RETURN_IF_ERROR(CheckCount(shape_, cores.size()));
  RETURN_IF_ERROR(CheckCount(shape_, grad_cores.size()));
  RETURN_IF_ERROR(
      CheckGradient("suffix", grad_suffix, shape_.MiddleRank(), shape_.Cols()));
  const int last = shape_.order() - 1;
  const float* grad = grad_suffix.data;
  for (int k = shape_.inputs(); k < last; ++k) {
    const int64_t right = shape_.RightRank(k);
    const int64_t height = shape_.LeftRank(k) * shape_.Mode(k);
    const ConstMatrix grad_product(grad, height, others_[k]);
    RETURN_IF_ERROR(backend->Gemm(
        false, true, 1, grad_product,
        ConstMatrix(Product(cores, kept, k + 1), right, others_[k]), 0,
        Matrix(grad_cores[k], height, right)));
    float* next =
        k == last - 1 ? grad_cores[last] : workspace + (k % 2) * largest_;
    RETURN_IF_ERROR(
        backend->Gemm(true, false, 1, ConstMatrix(cores[k], height, right),
                      grad_product, 0, Matrix(next, right, others_[k])));
    grad = next;
  }
  if (shape_.inputs() < last) return absl::OkStatus();
  return backend->Copy(grad_cores[last], grad,
                       shape_.CoreSize(last) * sizeof(float));
}

}  // namespace comera::kernels
