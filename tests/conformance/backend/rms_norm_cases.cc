// Rows for normalisation by the root mean square, and its gradient.
#include "absl/strings/str_cat.h"
#include "kernels/reference/rms_norm.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

constexpr float kEpsilon = 1e-3f;

OpCase Forward(bool in_place, int64_t rows, int64_t cols) {
  Operand x = In("x", rows, cols);
  Operand normalised = Out("normalised", rows, cols);
  if (in_place) {
    x.use = Use::kUpdated;
    normalised.use = Use::kRead;
  }
  const size_t to = in_place ? 0 : 2;
  return {
      absl::StrCat("RmsNorm_", rows, "x", cols, in_place ? "_in_place" : ""),
      {x, Packed(In("gamma", 1, cols)), normalised,
       Packed(Out("inverse_deviation", 1, rows)), Out("y", rows, cols)},
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->RmsNorm(d[0].matrix, d[1].vector(), kEpsilon,
                                d[to].matrix, d[3].vector(), d[4].matrix);
      },
      [=](Values* v) {
        const DoubleMatrix in = (*v)[0];
        reference::RmsNorm(in, (*v)[1], kEpsilon, &(*v)[to], &(*v)[3],
                           &(*v)[4]);
      },
      5e-6};
}

OpCase Backward(int64_t rows, int64_t cols) {
  return {absl::StrCat("RmsNormBackward_", rows, "x", cols),
          {In("grad_y", rows, cols), In("normalised", rows, cols),
           Packed(Within(0.5, 2, In("inverse_deviation", 1, rows))),
           Packed(In("gamma", 1, cols)), Updated("grad_x", rows, cols),
           Packed(Updated("grad_gamma", 1, cols))},
          [=](Backend* backend, const DeviceOperands& d) {
            return backend->RmsNormBackward(d[0].matrix, d[1].matrix,
                                            d[2].vector(), d[3].vector(),
                                            d[4].matrix, d[5].vector());
          },
          [=](Values* v) {
            reference::RmsNormBackward((*v)[0], (*v)[1], (*v)[2], (*v)[3],
                                       &(*v)[4], &(*v)[5]);
          },
          1e-5};
}

}  // namespace

std::vector<OpCase> RmsNormCases() {
  std::vector<OpCase> cases;
  // The last four: of every width that a backend may treat apart.
  const std::pair<int64_t, int64_t> shapes[] = {
      {0, 8},    {0, 0},   {1, 1},    {3, 37},   {67, 300},
      {400, 96}, {5, 768}, {3, 1024}, {3, 1500}, {2, 4100}};
  for (const auto& [rows, cols] : shapes) {
    cases.push_back(Forward(false, rows, cols));
    cases.push_back(Forward(true, rows, cols));
    cases.push_back(Backward(rows, cols));
  }
  return cases;
}

}  // namespace comera::kernels
