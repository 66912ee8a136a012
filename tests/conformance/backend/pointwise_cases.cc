// Rows for activations and dropout.
#include "absl/strings/str_cat.h"
#include "kernels/reference/pointwise.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

void AddActivation(const std::string& name, Activation f, int64_t rows,
                   int64_t cols, std::vector<OpCase>* cases) {
  const std::string shape = absl::StrCat("_", rows, "x", cols);
  cases->push_back(
      {name + shape,
       {Within(-9, 9, In("x", rows, cols)), Out("y", rows, cols)},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->Activate(f, d[0].matrix, d[1].matrix);
       },
       [=](Values* v) { reference::Activate(f, (*v)[0], &(*v)[1]); }});
  cases->push_back({name + "InPlace" + shape,
                    {Within(-9, 9, Updated("x", rows, cols))},
                    [=](Backend* backend, const DeviceOperands& d) {
                      return backend->Activate(f, d[0].matrix, d[0].matrix);
                    },
                    [=](Values* v) {
                      const DoubleMatrix x = (*v)[0];
                      reference::Activate(f, x, &(*v)[0]);
                    }});
}

// What is saved lies in [-range, range): any input, or the outputs of tanh.
void AddActivationBackward(const std::string& name, Activation f, double range,
                           int64_t rows, int64_t cols,
                           std::vector<OpCase>* cases) {
  const std::string shape = absl::StrCat("_", rows, "x", cols);
  const Operand saved = Within(-range, range, In("saved", rows, cols));
  cases->push_back(
      {name + shape,
       {saved, In("grad_y", rows, cols), Out("grad_x", rows, cols)},
       [=](Backend* backend, const DeviceOperands& d) {
         return backend->ActivateBackward(f, d[0].matrix, d[1].matrix,
                                          d[2].matrix);
       },
       [=](Values* v) {
         reference::ActivateBackward(f, (*v)[0], (*v)[1], &(*v)[2]);
       }});
  cases->push_back({name + "InPlace" + shape,
                    {saved, Updated("grad", rows, cols)},
                    [=](Backend* backend, const DeviceOperands& d) {
                      return backend->ActivateBackward(
                          f, d[0].matrix, d[1].matrix, d[1].matrix);
                    },
                    [=](Values* v) {
                      const DoubleMatrix grad = (*v)[1];
                      reference::ActivateBackward(f, (*v)[0], grad, &(*v)[1]);
                    }});
}

OpCase DropoutCase(float rate, int64_t first_row, int64_t rows, int64_t cols) {
  const uint32_t site = 17;
  return {absl::StrCat("Dropout_", rows, "x", cols, "_percent",
                       static_cast<int>(rate * 100), "_row", first_row),
          {In("x", rows, cols), Out("y", rows, cols)},
          [=](Backend* backend, const DeviceOperands& d) {
            return backend->Dropout({rate, site, first_row, d.state},
                                    d[0].matrix, d[1].matrix);
          },
          [=](Values* v) {
            reference::Dropout({rate, kSeed, kStep, site, first_row}, (*v)[0],
                               &(*v)[1]);
          }};
}

// Rows known by their ids: what a token gets does not depend on its place.
OpCase DropoutByRowIds(int64_t rows, int64_t cols) {
  constexpr float kRate = 0.3f;
  constexpr int64_t kFirstRow = 1000;
  return {absl::StrCat("DropoutByRowIds_", rows, "x", cols),
          {In("x", rows, cols), Out("y", rows, cols),
           Indices("row_ids", rows, 5000)},
          [=](Backend* backend, const DeviceOperands& d) {
            return backend->Dropout(
                {kRate, 3, kFirstRow, d.state, d[2].indices().data},
                d[0].matrix, d[1].matrix);
          },
          [=](Values* v) {
            reference::DropoutNumbers numbers = {kRate, kSeed,     kStep,
                                                 3,     kFirstRow, {}};
            numbers.row_ids.assign((*v)[2].values.begin(),
                                   (*v)[2].values.end());
            reference::Dropout(numbers, (*v)[0], &(*v)[1]);
          }};
}

}  // namespace

std::vector<OpCase> PointwiseCases() {
  std::vector<OpCase> cases;
  const std::pair<int64_t, int64_t> shapes[] = {{0, 4},  {4, 0},    {1, 1},
                                                {7, 19}, {1, 1000}, {301, 127}};
  for (const auto& [rows, cols] : shapes) {
    AddActivation("Gelu", Activation::kGelu, rows, cols, &cases);
    AddActivation("Silu", Activation::kSilu, rows, cols, &cases);
    AddActivation("Tanh", Activation::kTanh, rows, cols, &cases);
    AddActivation("Relu", Activation::kRelu, rows, cols, &cases);
    AddActivation("GeluTanh", Activation::kGeluTanh, rows, cols, &cases);
    AddActivation("Identity", Activation::kIdentity, rows, cols, &cases);
    AddActivationBackward("GeluBackward", Activation::kGelu, 9, rows, cols,
                          &cases);
    AddActivationBackward("SiluBackward", Activation::kSilu, 9, rows, cols,
                          &cases);
    AddActivationBackward("TanhBackward", Activation::kTanh, 1, rows, cols,
                          &cases);
    AddActivationBackward("ReluBackward", Activation::kRelu, 1, rows, cols,
                          &cases);
    AddActivationBackward("GeluTanhBackward", Activation::kGeluTanh, 12, rows,
                          cols, &cases);
    AddActivationBackward("IdentityBackward", Activation::kIdentity, 9, rows,
                          cols, &cases);
    cases.push_back(DropoutCase(0.1f, 0, rows, cols));
  }
  cases.push_back(DropoutByRowIds(0, 8));
  cases.push_back(DropoutByRowIds(37, 70));
  cases.push_back(DropoutCase(0, 0, 7, 19));
  cases.push_back(DropoutCase(0.5f, 3, 9, 517));
  // Beyond 2^32 rows the counter's third word takes over.
  cases.push_back(DropoutCase(0.5f, (int64_t{5} << 32) - 2, 9, 33));
  return cases;
}

}  // namespace comera::kernels
