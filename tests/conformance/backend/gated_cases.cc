// Rows for gates and their gradients.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/reference/pointwise.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

struct Gate {
  const char* name;
  Activation f;
};

// Operands 0 and 1 are gate and up; `to` is the one that y is.
OpCase Forward(const Gate& gate, int64_t rows, int64_t cols, size_t to) {
  std::vector<Operand> operands = {Within(-9, 9, In("gate", rows, cols)),
                                   In("up", rows, cols)};
  if (to < 2) {
    operands[to].use = Use::kUpdated;
  } else {
    operands.push_back(Out("y", rows, cols));
  }
  const Activation f = gate.f;
  return {absl::StrCat("Gated", gate.name, "_", rows, "x", cols, "_to", to),
          operands,
          [=](Backend* backend, const DeviceOperands& d) {
            return backend->Gated(f, d[0].matrix, d[1].matrix, d[to].matrix);
          },
          [=](Values* v) {
            const DoubleMatrix in = (*v)[0], up = (*v)[1];
            reference::Gated(f, in, up, &(*v)[to]);
          }};
}

// Operands 0 to 2 are gate, up and grad_y; the gradients go to two of them or
// to operands 3 and 4.
OpCase Backward(const Gate& gate, int64_t rows, int64_t cols, size_t to_gate,
                size_t to_up) {
  std::vector<Operand> operands = {Within(-9, 9, In("gate", rows, cols)),
                                   In("up", rows, cols),
                                   In("grad_y", rows, cols)};
  for (size_t to : {to_gate, to_up}) {
    if (to < 3) {
      operands[to].use = Use::kUpdated;
    } else {
      operands.push_back(Out(absl::StrCat("gradient ", to), rows, cols));
    }
  }
  const Activation f = gate.f;
  return {
      absl::StrCat("GatedBackward", gate.name, "_", rows, "x", cols, "_to",
                   to_gate, to_up),
      operands,
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->GatedBackward(f, d[0].matrix, d[1].matrix, d[2].matrix,
                                      d[to_gate].matrix, d[to_up].matrix);
      },
      [=](Values* v) {
        const DoubleMatrix in = (*v)[0], up = (*v)[1], grad = (*v)[2];
        reference::GatedBackward(f, in, up, grad, &(*v)[to_gate], &(*v)[to_up]);
      }};
}

}  // namespace

std::vector<OpCase> GatedCases() {
  const std::vector<Gate> gates = {{"Silu", Activation::kSilu},
                                   {"Gelu", Activation::kGelu},
                                   {"GeluTanh", Activation::kGeluTanh},
                                   {"Identity", Activation::kIdentity}};
  const std::pair<int64_t, int64_t> shapes[] = {{0, 4},  {4, 0},    {1, 1},
                                                {7, 19}, {1, 2500}, {301, 127}};
  std::vector<OpCase> cases;
  for (const auto& [rows, cols] : shapes) {
    for (const Gate& gate : gates) {
      for (size_t to : {0, 1, 2}) {
        cases.push_back(Forward(gate, rows, cols, to));
      }
      cases.push_back(Backward(gate, rows, cols, 3, 4));
      cases.push_back(Backward(gate, rows, cols, 0, 1));
      cases.push_back(Backward(gate, rows, cols, 0, 2));
    }
    // Functions whose slope is known from their output only.
    cases.push_back(Forward({"Tanh", Activation::kTanh}, rows, cols, 2));
    cases.push_back(Forward({"Relu", Activation::kRelu}, rows, cols, 2));
  }
  return cases;
}

}  // namespace comera::kernels
