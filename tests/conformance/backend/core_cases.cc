// Rows for folding bond entries into cores.
#include <cstring>

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
       {Packed(In("parameters", 1, 80)), Packed(Updated("gradients", 1, 80)),
        Packed(In("coefficient", 1, 4))},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->AddBondGradient(d[0].vector(), bonds, d[2].matrix.data,
                                         kThreshold, d[1].vector());
       },
       [=](Values* v) {
         reference::AddBondGradient((*v)[0], bonds, (*v)[2], kThreshold,
                                    &(*v)[1]);
       }});

  // Trains of three bonds and of one; a train of which a bond has no entry.
  const std::vector<SizeBond> trains = {
      {12, 8, -1, 1, 0, 3},   {8, 6, 0, 2, 0, 3},    {6, 64, 1, -1, 0, 3},
      {96, 32, -1, -1, 3, 4}, {10, 20, -1, 5, 4, 6}, {20, 30, 4, -1, 4, 6}};
  std::vector<double> words;
  for (const SizeBond& bond : trains) {
    int32_t bits[6];
    static_assert(sizeof(bits) == sizeof(bond));
    std::memcpy(bits, &bond, sizeof(bits));
    words.insert(words.end(), bits, bits + 6);
  }
  Operand counts = Packed(In("counts", 1, 6));
  counts.values = {30, 29, 1, 12, 0, 4};
  cases.push_back({"RelaxedSizeGradient",
                   {List("bonds", words), Packed(Within(0, 9, In("l1", 1, 6))),
                    counts, Packed(Out("coefficient", 1, 6))},
                   [](Backend* backend, const DeviceOperands& d) {
                     return backend->RelaxedSizeGradient(
                         reinterpret_cast<const SizeBond*>(d[0].matrix.data), 6,
                         d[1].matrix.data, d[2].matrix.data, 0.5f,
                         d[3].matrix.data);
                   },
                   [=](Values* v) {
                     reference::RelaxedSizeGradient(trains, (*v)[1], (*v)[2],
                                                    0.5, &(*v)[3]);
                   }});
  return cases;
}

}  // namespace comera::kernels
