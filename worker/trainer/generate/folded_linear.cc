// Runs a linear layer of one or two matrices.
#include "worker/trainer/generate/folded_linear.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::Activation;
using kernels::ConstMatrix;
using kernels::ConstVector;
using kernels::Matrix;

FoldedLinear::FoldedLinear(kernels::Backend* backend, ConstMatrix weight,
                           bool transposed, ConstVector bias)
    : backend_(backend),
      inputs_(transposed ? weight.cols : weight.rows),
      outputs_(transposed ? weight.rows : weight.cols),
      transposed_(transposed),
      a_(weight),
      bias_(bias) {}

absl::StatusOr<FoldedLinear> FoldedLinear::Upload(
    kernels::Backend* backend, LayerFactors factors,
    const std::vector<float>& bias) {
  HostMatrix &a = factors.a, &b = factors.b;
  if (factors.two && !factors.silu && a.cols > 0 &&
      a.cols * (a.rows + b.cols) >= a.rows * b.cols) {
    a = std::move(factors).Multiplied();
    b = HostMatrix();
    factors.two = false;
  }
  auto memory = std::make_shared<kernels::Arena>(backend);
  const std::vector<float>* const parts[] = {&a.values, &b.values, &bias};
  const auto bytes = [](const std::vector<float>& values) {
    return static_cast<int64_t>(values.size() * sizeof(float));
  };
  kernels::Arena::Piece pieces[3];
  for (int i = 0; i < 3; ++i) {
    pieces[i] = memory->Reserve("weights", bytes(*parts[i]));
  }
  RETURN_IF_ERROR(memory->Commit());
  for (int i = 0; i < 3; ++i) {
    RETURN_IF_ERROR(backend->CopyToDevice(memory->Address(pieces[i]),
                                          parts[i]->data(), bytes(*parts[i])));
  }
  // The host's copies end with this call.
  RETURN_IF_ERROR(backend->Synchronize());
  FoldedLinear layer(
      backend, ConstMatrix(memory->Floats(pieces[0]), a.rows, a.cols),
      /*transposed=*/false,
      bias.empty() ? ConstVector()
                   : ConstVector(memory->Floats(pieces[2]),
                                 static_cast<int64_t>(bias.size())));
  layer.two_ = factors.two;
  layer.silu_ = factors.silu;
  if (factors.two) {
    layer.b_ = ConstMatrix(memory->Floats(pieces[1]), b.rows, b.cols);
    layer.rank_ = a.cols;
    layer.outputs_ = b.cols;
  }
  layer.memory_ = std::move(memory);
  return layer;
}

absl::Status FoldedLinear::Run(ConstMatrix x, float beta, float* scratch,
                               Matrix y) const {
  ConstMatrix last = x;
  if (two_) {
    const Matrix t(scratch, x.rows, rank_);
    RETURN_IF_ERROR(backend_->Gemm(false, false, 1, x, a_, 0, t));
    if (silu_) RETURN_IF_ERROR(backend_->Activate(Activation::kSilu, t, t));
    last = t;
  }
  RETURN_IF_ERROR(backend_->Gemm(false, transposed_ && !two_, 1, last,
                                 two_ ? b_ : a_, beta, y));
  if (!two_ && silu_) {
    RETURN_IF_ERROR(backend_->Activate(Activation::kSilu, y, y));
  }
  return bias_.data == nullptr ? absl::OkStatus() : backend_->AddBias(bias_, y);
}

absl::Status FoldedLinear::Forward(ConstMatrix x, float* scratch,
                                   Matrix y) const {
  return Run(x, 0, scratch, y);
}

absl::Status FoldedLinear::AddTo(ConstMatrix x, float* scratch,
                                 Matrix y) const {
  if (silu_ && !two_) {
    return absl::InternalError("an activation of one factor is not added");
  }
  return Run(x, 1, scratch, y);
}

}  // namespace comera::trainer
