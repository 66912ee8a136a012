#include "absl/strings/str_cat.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/objective.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

constexpr float kThreshold = 0.25f;  // a good part of the entries is below

void AddFoldCases(int64_t rows, int64_t cols, std::vector<OpCase>* cases) {
  const std::string shape = absl::StrCat(rows, "x", cols);
  cases->push_back(
      {"FoldCore_" + shape,
       {In("g", rows, cols), Packed(In("d", 1, cols)), Out("h", rows, cols)},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->FoldCore(d[0].matrix, d[1].vector(), kThreshold,
                                  d[2].matrix);
       },
       [](Values* v) {
         reference::FoldCore((*v)[0], (*v)[1], kThreshold, &(*v)[2]);
       }});
  cases->push_back({"FoldCoreInPlace_" + shape,
                    {Updated("g", rows, cols), Packed(In("d", 1, cols))},
                    [](Backend* backend, const DeviceOperands& d) {
                      return backend->FoldCore(d[0].matrix, d[1].vector(),
                                               kThreshold, d[0].matrix);
                    },
                    [](Values* v) {
                      const reference::DoubleMatrix g = (*v)[0];
                      reference::FoldCore(g, (*v)[1], kThreshold, &(*v)[0]);
                    }});
  cases->push_back(
      {"FoldCoreBackward_" + shape,
       {In("g", rows, cols), Packed(In("d", 1, cols)), In("grad_h", rows, cols),
        Updated("grad_g", rows, cols), Packed(Updated("grad_d", 1, cols))},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->FoldCoreBackward(d[0].matrix, d[1].vector(),
                                          kThreshold, d[2].matrix, d[3].matrix,
                                          d[4].vector());
       },
       [](Values* v) {
         reference::FoldCoreBackward((*v)[0], (*v)[1], kThreshold, (*v)[2],
                                     &(*v)[3], &(*v)[4]);
       },
       5e-6});
}

}  // namespace

std::vector<OpCase> CoreCases() {
  std::vector<OpCase> cases;
  AddFoldCases(0, 4, &cases);
  AddFoldCases(4, 0, &cases);
  AddFoldCases(1, 1, &cases);
  AddFoldCases(96, 30, &cases);
  AddFoldCases(1333, 31, &cases);

  const std::vector<BondSpan> bonds = {{3, 30}, {40, 1}, {50, 0}, {60, 13}};
  const std::vector<float> coefficient = {0.5f, -1, 2, 0.25f};
  cases.push_back(
      {"BondNorms",
       {Packed(In("parameters", 1, 80)), Packed(Out("l1", 1, 4)),
        Packed(Out("count", 1, 4))},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->BondNorms(d[0].vector(), bonds, kThreshold,
                                   d[1].matrix.data, d[2].matrix.data);
       },
       [=](Values* v) {
         reference::BondNorms((*v)[0], bonds, kThreshold, &(*v)[1], &(*v)[2]);
       }});
  cases.push_back(
      {"AddBondGradient",
       {Packed(In("parameters", 1, 80)), Packed(Updated("gradients", 1, 80))},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->AddBondGradient(d[0].vector(), bonds, coefficient,
                                         kThreshold, d[1].vector());
       },
       [=](Values* v) {
         reference::AddBondGradient((*v)[0], bonds, coefficient, kThreshold,
                                    &(*v)[1]);
       }});
  return cases;
}

}  // namespace comera::kernels
