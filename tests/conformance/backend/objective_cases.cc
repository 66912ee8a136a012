// Rows for losses, the optimiser and the penalty of bonds.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/reference/objective.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Values = std::vector<DoubleMatrix>;

void AddCrossEntropy(int64_t rows, int64_t cols, double range,
                     std::vector<OpCase>* cases) {
  const std::string shape =
      absl::StrCat(rows, "x", cols, "_range", static_cast<int>(range));
  const Operand logits = Within(-range, range, In("logits", rows, cols));
  // Some of them -1.
  const Operand labels =
      Within(-1, static_cast<double>(cols), Indices("labels", rows, cols));
  const Operand totals = Packed(Updated("totals", 1, 3));
  cases->push_back(
      {"SoftmaxCrossEntropy_" + shape,
       {logits, labels, Out("grad", rows, cols), totals},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->SoftmaxCrossEntropy(d[0].matrix, d[1].indices(),
                                             d[2].matrix, d[3].matrix.data);
       },
       [](Values* v) {
         reference::SoftmaxCrossEntropy((*v)[0], (*v)[1], &(*v)[2], &(*v)[3]);
       }});
  cases->push_back(
      {"SoftmaxCrossEntropyAlone_" + shape,
       {logits, labels, totals},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->SoftmaxCrossEntropy(d[0].matrix, d[1].indices(),
                                             Matrix(), d[2].matrix.data);
       },
       [](Values* v) {
         reference::SoftmaxCrossEntropy((*v)[0], (*v)[1], nullptr, &(*v)[2]);
       }});
  cases->push_back(
      {"SoftmaxCrossEntropyInPlace_" + shape,
       {Within(-range, range, Updated("logits", rows, cols)), labels, totals},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->SoftmaxCrossEntropy(d[0].matrix, d[1].indices(),
                                             d[0].matrix, d[2].matrix.data);
       },
       [](Values* v) {
         const DoubleMatrix before = (*v)[0];
         reference::SoftmaxCrossEntropy(before, (*v)[1], &(*v)[0], &(*v)[2]);
       }});
}

void AddSigmoidCrossEntropy(int64_t rows, double range,
                            std::vector<OpCase>* cases) {
  const std::string shape =
      absl::StrCat(rows, "_range", static_cast<int>(range));
  const Operand logits = Within(-range, range, In("logits", rows, 1));
  const Operand labels = Indices("labels", rows, 2);
  const Operand totals = Packed(Updated("totals", 1, 3));
  cases->push_back(
      {"SigmoidCrossEntropy_" + shape,
       {logits, labels, Out("grad", rows, 1), totals},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->SigmoidCrossEntropy(d[0].matrix, d[1].indices(),
                                             d[2].matrix, d[3].matrix.data);
       },
       [](Values* v) {
         reference::SigmoidCrossEntropy((*v)[0], (*v)[1], &(*v)[2], &(*v)[3]);
       }});
  cases->push_back(
      {"SigmoidCrossEntropyAlone_" + shape,
       {logits, labels, totals},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->SigmoidCrossEntropy(d[0].matrix, d[1].indices(),
                                             Matrix(), d[2].matrix.data);
       },
       [](Values* v) {
         reference::SigmoidCrossEntropy((*v)[0], (*v)[1], nullptr, &(*v)[2]);
       }});
  cases->push_back(
      {"SigmoidCrossEntropyInPlace_" + shape,
       {Within(-range, range, Updated("logits", rows, 1)), labels, totals},
       [](Backend* backend, const DeviceOperands& d) {
         return backend->SigmoidCrossEntropy(d[0].matrix, d[1].indices(),
                                             d[0].matrix, d[2].matrix.data);
       },
       [](Values* v) {
         const DoubleMatrix before = (*v)[0];
         reference::SigmoidCrossEntropy(before, (*v)[1], &(*v)[0], &(*v)[2]);
       }});
}

OpCase AdamWCase(int64_t size, std::vector<AdamWSegment> segments,
                 int64_t step_number) {
  AdamWStep step;
  step.step = step_number;
  step.gradient_scale = 0.5f;
  return {absl::StrCat("AdamW_", size, "_step", step_number),
          {Packed(Updated("parameters", 1, size)),
           Packed(In("gradients", 1, size)), Packed(Updated("first", 1, size)),
           Packed(Within(0.01, 1, Updated("second", 1, size)))},
          [=](Backend* backend, const DeviceOperands& d) {
            return backend->AdamW(step, segments, d[0].vector(), d[1].vector(),
                                  d[2].vector(), d[3].vector());
          },
          [=](Values* v) {
            reference::AdamW(step, segments, &(*v)[0], (*v)[1], &(*v)[2],
                             &(*v)[3]);
          },
          5e-6};
}

// Runs the step with a workspace of its own.
absl::Status RunOrthogonal(Backend* backend, const OrthogonalRule& rule,
                           const std::vector<OrthogonalSegment>& segments,
                           const DeviceOperands& d) {
  ASSIGN_OR_RETURN(
      void* const workspace,
      backend->Allocate(backend->OrthogonalStepWorkspaceBytes(segments)));
  const absl::Status status = backend->OrthogonalStep(
      rule, segments, d[0].vector(), d[1].vector(), d[2].vector(), workspace);
  RETURN_IF_ERROR(backend->Synchronize());
  backend->Free(workspace);
  return status;
}

OpCase OrthogonalCase(const std::string& name, int64_t size,
                      std::vector<OrthogonalSegment> segments) {
  OrthogonalRule rule;
  rule.momentum = 0.9f;
  return {
      absl::StrCat("OrthogonalStep_", name),
      {Packed(Updated("parameters", 1, size)), Packed(In("gradients", 1, size)),
       Packed(Updated("momentum", 1, size))},
      [=](Backend* backend, const DeviceOperands& d) {
        return RunOrthogonal(backend, rule, segments, d);
      },
      [=](Values* v) {
        reference::OrthogonalStep(rule, segments, &(*v)[0], (*v)[1], &(*v)[2]);
      },
      2e-5};
}
// The same with what changes from step to step in memory of the backend.
OpCase OrthogonalFromStateCase(const std::string& name, double squares) {
  constexpr int64_t kSize = 260;
  const std::vector<OrthogonalSegment> segments = {{3, 12, 20, 0.1f, 0.01f}};
  Operand sum = Packed(In("squares", 1, 1));
  sum.values = {squares};
  return {"OrthogonalStepFromState_" + name,
          {Packed(Updated("parameters", 1, kSize)),
           Packed(In("gradients", 1, kSize)),
           Packed(Updated("momentum", 1, kSize)), sum},
          [=](Backend* backend, const DeviceOperands& d) -> absl::Status {
            OrthogonalRule rule;
            rule.state = d.state;
            rule.squares = d[3].matrix.data;
            return RunOrthogonal(backend, rule, segments, d);
          },
          [=](Values* v) {
            reference::OrthogonalStep({}, segments, &(*v)[0], (*v)[1], &(*v)[2],
                                      &kState, squares);
          },
          2e-5};
}

// Rows of tables, of which some have no gradient.
OpCase AdamWRowsCase(int64_t rows, int64_t width, bool adagrad) {
  const int64_t size = 5 + rows * width;
  const std::vector<AdamWSegment> segments = {
      {0, 5, 0.1f, 0.01f}, {5, rows * width, 0.1f, 0.01f, width, adagrad}};
  AdamWStep step;
  step.step = 3;
  Operand gradients = Packed(In("gradients", 1, size));
  for (int64_t i = 0; i < size; ++i) {
    // Every third row has a gradient, and one of these only in its last place.
    const int64_t row = (i - 5) / width, column = (i - 5) % width;
    const bool some =
        i < 5 || (row % 3 == 1 && (row != 4 || column + 1 == width));
    gradients.values.push_back(some ? std::sin(1.0f + static_cast<float>(i))
                                    : 0.0f);
  }
  return {
      absl::StrCat(adagrad ? "AdagradRows_" : "AdamWRows_", rows, "x", width),
      {Packed(Updated("parameters", 1, size)), gradients,
       Packed(Updated("first", 1, size)),
       Packed(Within(0.01, 1, Updated("second", 1, size)))},
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->AdamW(step, segments, d[0].vector(), d[1].vector(),
                              d[2].vector(), d[3].vector());
      },
      [=](Values* v) {
        reference::AdamW(step, segments, &(*v)[0], (*v)[1], &(*v)[2], &(*v)[3]);
      },
      5e-6};
}

// AdamW with everything that changes from step to step in memory of the
// backend.
OpCase AdamWFromStateCase(const std::string& name, double squares) {
  constexpr int64_t kSize = 70;
  const std::vector<AdamWSegment> segments = {{2, 33, 0.1f, 0.01f},
                                              {40, 30, 0.01f, 0}};
  Operand sum = Packed(In("squares", 1, 1));
  sum.values = {squares};
  const auto step = [](const StepState* state, const float* square_sum) {
    AdamWStep rule;
    rule.gradient_scale = 0.5f;
    rule.state = state;
    rule.squares = square_sum;
    rule.clip_norm = 2;
    return rule;
  };
  return {
      "AdamWFromState_" + name,
      {Packed(Updated("parameters", 1, kSize)),
       Packed(In("gradients", 1, kSize)), Packed(Updated("first", 1, kSize)),
       Packed(Within(0.01, 1, Updated("second", 1, kSize))), sum},
      [=](Backend* backend, const DeviceOperands& d) {
        return backend->AdamW(step(d.state, d[4].matrix.data), segments,
                              d[0].vector(), d[1].vector(), d[2].vector(),
                              d[3].vector());
      },
      [=](Values* v) {
        reference::AdamW(step(nullptr, nullptr), segments, &(*v)[0], (*v)[1],
                         &(*v)[2], &(*v)[3], &kState, squares);
      },
      5e-6};
}

}  // namespace

std::vector<OpCase> ObjectiveCases() {
  std::vector<OpCase> cases;
  AddCrossEntropy(0, 5, 3, &cases);
  AddCrossEntropy(1, 1, 3, &cases);
  AddCrossEntropy(5, 3, 3, &cases);
  AddCrossEntropy(33, 1100, 30, &cases);
  // All logits equal: only label 0 counts as right.
  AddCrossEntropy(40, 7, 0, &cases);

  AddSigmoidCrossEntropy(0, 3, &cases);
  AddSigmoidCrossEntropy(1, 3, &cases);
  AddSigmoidCrossEntropy(37, 100, &cases);
  AddSigmoidCrossEntropy(3001, 5, &cases);
  // A logit of 0 answers "no click".
  AddSigmoidCrossEntropy(20, 0, &cases);

  cases.push_back(AdamWCase(0, {}, 1));
  cases.push_back(AdamWCase(1, {{0, 1, 0.1f, 0.01f}}, 1));
  // Gaps stay, segments may come in any order and be empty.
  cases.push_back(AdamWCase(
      100,
      {{60, 33, 0.1f, 0}, {3, 17, 0.01f, 0.1f}, {25, 0, 1, 1}, {30, 5, 0, 1}},
      7));
  cases.push_back(AdamWCase(
      50000, {{0, 20011, 1e-3f, 0.01f}, {20011, 29000, 1e-2f, 0}}, 1000));

  for (const int64_t width : {1, 3, 16, 50}) {
    for (const bool adagrad : {false, true}) {
      cases.push_back(AdamWRowsCase(1, width, adagrad));
      cases.push_back(AdamWRowsCase(11, width, adagrad));
      cases.push_back(AdamWRowsCase(3000, width, adagrad));
    }
  }
  cases.push_back(AdamWFromStateCase("clipped", 25));
  cases.push_back(AdamWFromStateCase("whole", 3));
  cases.push_back(AdamWFromStateCase("not_finite",
                                     std::numeric_limits<double>::infinity()));

  cases.push_back(OrthogonalCase("none", 0, {}));
  cases.push_back(OrthogonalCase("one_element", 1, {{0, 1, 1, 0.1f, 0.01f}}));
  // Tall, wide, square, a row and a column; gaps stay.
  cases.push_back(OrthogonalCase("shapes", 6000,
                                 {{0, 64, 30, 0.1f, 0, true},
                                  {2000, 30, 65, 0.01f, 0.1f, true},
                                  {3951, 33, 33, 0.1f, 0},
                                  {5100, 1, 40, 0.1f, 0},
                                  {5200, 57, 1, 0.1f, 0}}));
  cases.push_back(Sparing(
      OrthogonalCase("large", 512 * 192, {{0, 512, 192, 0.1f, 0.01f, true}})));
  // Two large ones share a place in the workspace; 206 columns leave a vector
  // that is filled up.
  cases.push_back(Sparing(OrthogonalCase(
      "two_large", 2 * 401 * 206,
      {{0, 401, 206, 0.1f, 0.01f, true}, {401 * 206, 206, 401, 0.1f, 0}})));
  cases.push_back(OrthogonalFromStateCase("finite", 3));
  cases.push_back(OrthogonalFromStateCase(
      "not_finite", std::numeric_limits<double>::infinity()));

  for (int64_t n : {0, 1, 37, 60001}) {
    cases.push_back(
        {absl::StrCat("SumOfSquares_", n),
         {Packed(In("x", 1, n)), Packed(Out("sum", 1, 1))},
         [](Backend* backend, const DeviceOperands& d) {
           return backend->SumOfSquares(d[0].vector(), d[1].matrix.data);
         },
         [](Values* v) { (*v)[1][0] = reference::SumOfSquares((*v)[0]); },
         1e-6});
  }
  return cases;
}

}  // namespace comera::kernels
