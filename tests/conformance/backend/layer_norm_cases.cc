// Rows for layer normalisation and its gradient.
#include "absl/strings/str_cat.h"
#include "kernels/reference/layer_norm.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

constexpr float kEpsilon = 1e-3f;
constexpr uint32_t kSite = 5;
constexpr int64_t kFirstRow = 11;

DropoutKey Key(float rate, const DeviceOperands& d) {
  return {rate, kSite, kFirstRow, d.state};
}
reference::DropoutNumbers Numbers(float rate) {
  return {rate, kSeed, kStep, kSite, kFirstRow};
}

OpCase Forward(float rate, bool with_residual, int64_t rows, int64_t cols) {
  return {
      absl::StrCat("ResidualLayerNorm_", rows, "x", cols, "_percent",
                   static_cast<int>(rate * 100), with_residual ? "" : "_alone"),
      {In("x", rows, cols), In("residual", rows, cols),
       Packed(In("gamma", 1, cols)), Packed(In("beta", 1, cols)),
       Out("normalised", rows, cols), Packed(Out("inverse_deviation", 1, rows)),
       Out("y", rows, cols)},
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->ResidualLayerNorm(
            Key(rate, d), d[0].matrix,
            with_residual ? ConstMatrix(d[1].matrix) : ConstMatrix(),
            d[2].vector(), d[3].vector(), kEpsilon, d[4].matrix, d[5].vector(),
            d[6].matrix);
      },
      [=](Values* v) {
        reference::ResidualLayerNorm(
            Numbers(rate), (*v)[0], with_residual ? &(*v)[1] : nullptr, (*v)[2],
            (*v)[3], kEpsilon, &(*v)[4], &(*v)[5], &(*v)[6]);
      },
      1e-5};
}

// The memory of a block that keeps one matrix per sum: x lies where normalised
// goes, the residual where y goes.
OpCase ForwardInPlace(float rate, int64_t rows, int64_t cols) {
  return {
      absl::StrCat("ResidualLayerNorm_", rows, "x", cols, "_percent",
                   static_cast<int>(rate * 100), "_in_place"),
      {Updated("x and normalised", rows, cols),
       Updated("residual and y", rows, cols), Packed(In("gamma", 1, cols)),
       Packed(In("beta", 1, cols)), Packed(Out("inverse_deviation", 1, rows))},
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->ResidualLayerNorm(
            Key(rate, d), d[0].matrix, d[1].matrix, d[2].vector(),
            d[3].vector(), kEpsilon, d[0].matrix, d[4].vector(), d[1].matrix);
      },
      [=](Values* v) {
        const DoubleMatrix x = (*v)[0], residual = (*v)[1];
        reference::ResidualLayerNorm(Numbers(rate), x, &residual, (*v)[2],
                                     (*v)[3], kEpsilon, &(*v)[0], &(*v)[4],
                                     &(*v)[1]);
      },
      1e-5};
}

OpCase Output(float rate, bool in_place, bool with_beta, int64_t rows,
              int64_t cols) {
  Operand y = Out("y", rows, cols);
  if (in_place) y.use = Use::kRead;
  Operand normalised = In("normalised", rows, cols);
  if (in_place) normalised.use = Use::kUpdated;
  return {
      absl::StrCat("LayerNormOutput_", rows, "x", cols, "_percent",
                   static_cast<int>(rate * 100), in_place ? "_in_place" : "",
                   with_beta ? "" : "_without_beta"),
      {normalised, Packed(In("gamma", 1, cols)), Packed(In("beta", 1, cols)),
       y},
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->LayerNormOutput(
            Key(rate, d), d[0].matrix, d[1].vector(),
            with_beta ? ConstVector(d[2].vector()) : ConstVector(),
            d[in_place ? 0 : 3].matrix);
      },
      [=](Values* v) {
        reference::LayerNormOutput(Numbers(rate), (*v)[0], (*v)[1],
                                   with_beta ? &(*v)[2] : nullptr,
                                   &(*v)[in_place ? 0 : 3]);
      }};
}

// The gradients that are asked for, and whether they share a matrix.
enum class Wanted {
  kBoth,
  kShared,
  kOnlyX,
  kOnlyResidual,
  kNeither,
  kInPlace,  // both, that of the sum in the place of grad_y
};

OpCase Backward(float rate, Wanted wanted, int64_t rows, int64_t cols) {
  Operand grad_x = Out("grad_x", rows, cols);
  Operand grad_residual = Out("grad_residual", rows, cols);
  const bool in_place = wanted == Wanted::kInPlace;
  const bool x =
      wanted == Wanted::kBoth || wanted == Wanted::kOnlyX || in_place;
  const bool residual = wanted == Wanted::kBoth || wanted == Wanted::kShared ||
                        wanted == Wanted::kOnlyResidual;
  Operand grad_y = In("grad_y", rows, cols);
  if (in_place) grad_y.use = Use::kUpdated;
  if (!x) grad_x.use = Use::kRead;
  if (!residual) grad_residual.use = Use::kRead;
  return {absl::StrCat("ResidualLayerNormBackward_", rows, "x", cols,
                       "_percent", static_cast<int>(rate * 100), "_wanted",
                       static_cast<int>(wanted)),
          {grad_y, In("normalised", rows, cols),
           Packed(Within(0.5, 2, In("inverse_deviation", 1, rows))),
           Packed(In("gamma", 1, cols)), grad_x, grad_residual,
           Packed(Updated("grad_gamma", 1, cols)),
           Packed(Updated("grad_beta", 1, cols))},
          [=](Backend* backend, const DeviceOperands& d) {
            Matrix to_x, to_residual;
            if (x) to_x = d[4].matrix;
            if (residual) to_residual = d[5].matrix;
            if (in_place) to_residual = d[0].matrix;
            if (wanted == Wanted::kShared) to_x = to_residual;
            return backend->ResidualLayerNormBackward(
                Key(rate, d), d[0].matrix, d[1].matrix, d[2].vector(),
                d[3].vector(), to_x, to_residual, d[6].vector(), d[7].vector());
          },
          [=](Values* v) {
            const DoubleMatrix grad = (*v)[0];
            reference::ResidualLayerNormBackward(
                Numbers(rate), grad, (*v)[1], (*v)[2], (*v)[3], &(*v)[4],
                &(*v)[in_place ? 0 : 5], &(*v)[6], &(*v)[7]);
          },
          1e-5};
}

}  // namespace

std::vector<OpCase> LayerNormCases() {
  std::vector<OpCase> cases;
  // The last four: of every width that a backend may treat apart.
  const std::pair<int64_t, int64_t> shapes[] = {
      {0, 8},    {0, 0},   {1, 1},    {3, 37},   {67, 300},
      {400, 96}, {5, 768}, {3, 1024}, {3, 1500}, {2, 4100}};
  for (const auto& [rows, cols] : shapes) {
    cases.push_back(Forward(0, true, rows, cols));
    cases.push_back(Forward(0.1f, true, rows, cols));
    cases.push_back(Forward(0, false, rows, cols));
    cases.push_back(Forward(0.5f, false, rows, cols));
    cases.push_back(ForwardInPlace(0, rows, cols));
    cases.push_back(ForwardInPlace(0.1f, rows, cols));
    cases.push_back(Output(0, false, true, rows, cols));
    cases.push_back(Output(0.1f, false, true, rows, cols));
    cases.push_back(Output(0.1f, true, true, rows, cols));
    cases.push_back(Output(0, false, false, rows, cols));
    cases.push_back(Output(0.1f, true, false, rows, cols));
    for (Wanted wanted :
         {Wanted::kBoth, Wanted::kShared, Wanted::kOnlyX, Wanted::kOnlyResidual,
          Wanted::kNeither, Wanted::kInPlace}) {
      cases.push_back(Backward(0, wanted, rows, cols));
      if (wanted != Wanted::kShared) {
        cases.push_back(Backward(0.1f, wanted, rows, cols));
      }
    }
  }
  return cases;
}

}  // namespace comera::kernels
