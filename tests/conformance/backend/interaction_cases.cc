// Rows for the pairwise interaction.
#include "absl/strings/str_cat.h"
#include "kernels/reference/interaction.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

void AddInteraction(int64_t rows, int64_t vectors, int64_t width,
                    std::vector<OpCase>* cases) {
  const std::string shape = absl::StrCat("_", rows, "x", vectors, "x", width);
  const Operand z = In("z", rows, vectors * width);
  const int64_t outputs = width + vectors * (vectors - 1) / 2;
  cases->push_back(
      {"PairwiseInteraction" + shape,
       {z, Out("out", rows, outputs)},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->PairwiseInteraction(vectors, d[0].matrix, d[1].matrix);
       },
       [=](Values* v) {
         reference::PairwiseInteraction(vectors, (*v)[0], &(*v)[1]);
       }});
  cases->push_back(
      {"PairwiseInteractionBackward" + shape,
       {z, In("grad_out", rows, outputs), Out("grad_z", rows, vectors * width)},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->PairwiseInteractionBackward(vectors, d[0].matrix,
                                                     d[1].matrix, d[2].matrix);
       },
       [=](Values* v) {
         reference::PairwiseInteractionBackward(vectors, (*v)[0], (*v)[1],
                                                &(*v)[2]);
       }});
}

}  // namespace

std::vector<OpCase> InteractionCases() {
  std::vector<OpCase> cases;
  AddInteraction(0, 3, 4, &cases);
  AddInteraction(5, 3, 0, &cases);
  AddInteraction(1, 1, 1, &cases);
  AddInteraction(7, 1, 5, &cases);
  AddInteraction(5, 2, 3, &cases);
  AddInteraction(67, 27, 16, &cases);
  AddInteraction(3, 9, 33, &cases);
  return cases;
}

}  // namespace comera::kernels
