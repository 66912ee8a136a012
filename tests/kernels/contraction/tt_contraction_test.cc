// Every grouping of the cores gives the dense product and its derivatives.
#include "kernels/contraction/tt_contraction.h"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/contraction/cost_model.h"
#include "kernels/cost_backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/lookup.h"
#include "tests/kernels/contraction/chain_fixture.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;

constexpr int64_t kRows = 5;

struct Case {
  TtShape shape;
  int64_t outputs = 0;  // 0: all
};

// Every grouping of the shape's cores in turn.
class TtContractionTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    shape_ = GetParam().shape;
    inputs_ = shape_.Rows();
    outputs_ = GetParam().outputs == 0 ? shape_.Cols() : GetParam().outputs;
    std::mt19937 random(2);
    for (std::vector<float>* v : {&x_, &grad_y_}) {
      v->resize(kRows * (v == &x_ ? inputs_ : outputs_));
      for (float& value : *v) {
        value = static_cast<float>(random() * 0x1p-31 - 1);
      }
    }
  }

  template <typename Run>
  void ForEveryGrouping(const Run& run) {
    const int order = shape_.order();
    int ran = 0;
    for (int cuts = 0; cuts < 1 << (order - 1); ++cuts) {
      std::vector<int> ends;
      for (int k = 1; k < order; ++k) {
        if (cuts >> (k - 1) & 1) ends.push_back(k);
      }
      ends.push_back(order);
      const bool cut_outputs =
          ends.size() > 1 && ends[ends.size() - 2] > shape_.inputs();
      const auto contraction = TtContraction::Create(shape_, ends, outputs_);
      if (outputs_ < shape_.Cols() && cut_outputs) {
        EXPECT_THAT(contraction, StatusIs(absl::StatusCode::kInvalidArgument));
        continue;
      }
      ASSERT_OK(contraction.status());
      SCOPED_TRACE(::testing::PrintToString(ends));
      run(*contraction);
      if (HasFatalFailure()) return;
      ++ran;
    }
    EXPECT_GT(ran, 1);
  }

  // Sum of Y * gY by the definition.
  double Loss(const std::vector<DoubleMatrix>& cores,
              const std::vector<float>& x) const {
    const DoubleMatrix w = reference::DenseMatrix(shape_, cores);
    double loss = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < outputs_; ++o) {
        double y = 0;
        for (int64_t i = 0; i < inputs_; ++i) {
          y += x[r * inputs_ + i] * w.at(i, o);
        }
        loss += y * grad_y_[r * outputs_ + o];
      }
    }
    return loss;
  }

  ConstMatrix X(int64_t first, int64_t rows) const {
    return {x_.data() + first * inputs_, rows, inputs_};
  }

  const std::unique_ptr<Backend> backend_ = CreateCpuBackend({});
  TtShape shape_;
  int64_t inputs_ = 0, outputs_ = 0;
  std::vector<float> x_, grad_y_;
};

TEST_P(TtContractionTest, ForwardIsTheDenseMatrix) {
  const TestCores cores(shape_);
  const DoubleMatrix w = reference::DenseMatrix(shape_, cores.exact());
  ForEveryGrouping([&](const TtContraction& contraction) {
    TestMemory kept(contraction.kept_size());
    TestMemory states(contraction.state_size(kRows));
    TestMemory y(kRows * outputs_);
    ASSERT_OK(contraction.Build(backend_.get(), cores.cores(), kept.data()));
    ASSERT_OK(contraction.Forward(backend_.get(), cores.cores(), kept.data(),
                                  X(0, kRows), states.data(),
                                  {y.data(), kRows, outputs_}));
    kept.CheckMargin();
    states.CheckMargin();
    y.CheckMargin();
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < outputs_; ++o) {
        double sum = 0, scale = 1e-3;
        for (int64_t i = 0; i < inputs_; ++i) {
          const double term = x_[r * inputs_ + i] * w.at(i, o);
          sum += term;
          scale += std::fabs(term);
        }
        ASSERT_NEAR(y.data()[r * outputs_ + o], sum, 2e-5 * scale)
            << r << ", " << o;
      }
    }
  });
}

// In two blocks of rows, the second adding to what is in grad_x.
TEST_P(TtContractionTest, GradientsAreTheDerivatives) {
  ForEveryGrouping([&](const TtContraction& contraction) {
    const TestCores cores(shape_);
    TestMemory kept(contraction.kept_size());
    std::vector<float> grad_groups(contraction.grad_group_size(), 0);
    std::vector<float> grad_x(kRows * inputs_, 1);
    TestMemory workspace(contraction.workspace_size(kRows));
    ASSERT_OK(contraction.Build(backend_.get(), cores.cores(), kept.data()));
    for (const int64_t first : {0, 3}) {
      const int64_t rows = first == 0 ? 3 : kRows - 3;
      TestMemory states(contraction.state_size(rows));
      std::vector<float> y(rows * outputs_);
      ASSERT_OK(contraction.Forward(backend_.get(), cores.cores(), kept.data(),
                                    X(first, rows), states.data(),
                                    {y.data(), rows, outputs_}));
      ASSERT_OK(contraction.Backward(
          backend_.get(), cores.cores(), kept.data(), X(first, rows),
          states.data(), {grad_y_.data() + first * outputs_, rows, outputs_},
          {grad_x.data() + first * inputs_, rows, inputs_},
          /*accumulate=*/first > 0, grad_groups.data(), workspace.data()));
      states.CheckMargin();
    }
    ASSERT_OK(contraction.FinishBackward(backend_.get(), cores.cores(),
                                         kept.data(), grad_groups.data(),
                                         cores.grads(), workspace.data()));
    workspace.CheckMargin();
    cores.CheckGradients([&](const std::vector<DoubleMatrix>& changed) {
      return Loss(changed, x_);
    });
    std::vector<float> x = x_;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = x_[i] + 1;
      const double up = Loss(cores.exact(), x);
      x[i] = x_[i] - 1;
      const double expected = (up - Loss(cores.exact(), x)) / 2;
      x[i] = x_[i];
      const double old = static_cast<int64_t>(i) >= 3 * inputs_ ? 1 : 0;
      ASSERT_NEAR(grad_x[i], old + expected, 1e-4 * (1 + std::fabs(expected)));
    }
  });
}

TEST_P(TtContractionTest, NoGradientOfXIsFine) {
  const TestCores cores(shape_);
  ForEveryGrouping([&](const TtContraction& contraction) {
    std::vector<float> kept(contraction.kept_size());
    std::vector<float> states(contraction.state_size(kRows));
    std::vector<float> grad_groups(contraction.grad_group_size());
    std::vector<float> workspace(contraction.workspace_size(kRows));
    std::vector<float> y(kRows * outputs_);
    ASSERT_OK(contraction.Build(backend_.get(), cores.cores(), kept.data()));
    ASSERT_OK(contraction.Forward(backend_.get(), cores.cores(), kept.data(),
                                  X(0, kRows), states.data(),
                                  {y.data(), kRows, outputs_}));
    ASSERT_OK(contraction.Backward(
        backend_.get(), cores.cores(), kept.data(), X(0, kRows), states.data(),
        {grad_y_.data(), kRows, outputs_}, {nullptr, kRows, inputs_}, false,
        grad_groups.data(), workspace.data()));
  });
}

// The planner's count is what runs.
TEST_P(TtContractionTest, MultiplyAddsAreTheCostModels) {
  if (outputs_ < shape_.Cols()) return;  // the model counts all columns
  const TestCores cores(shape_);
  for (int cuts = 0; cuts < 1 << (shape_.order() - 1); ++cuts) {
    std::vector<int> ends;
    for (int k = 1; k < shape_.order(); ++k) {
      if (cuts >> (k - 1) & 1) ends.push_back(k);
    }
    ends.push_back(shape_.order());
    ASSERT_OK_AND_ASSIGN(const TtContraction contraction,
                         TtContraction::Create(shape_, ends, outputs_));
    OperationCosts costs;
    const auto counting =
        CreateCostBackend(backend_.get(), MachineSpeed{}, &costs);
    std::vector<float> memory(contraction.workspace_size(kRows) +
                              contraction.state_size(kRows) +
                              contraction.kept_size() + 1);
    float* m = memory.data();
    std::vector<float> y(kRows * outputs_), grad_x(kRows * inputs_);
    ASSERT_OK(contraction.Build(counting.get(), cores.cores(), m));
    ASSERT_OK(contraction.Forward(counting.get(), cores.cores(), m, X(0, kRows),
                                  m, {y.data(), kRows, outputs_}));
    const TtCost cost = CostOf(ends, shape_, kRows);
    EXPECT_EQ(costs.total.multiply_adds, cost.forward())
        << ::testing::PrintToString(ends);
    costs.Clear();
    ASSERT_OK(
        contraction.Backward(counting.get(), cores.cores(), m, X(0, kRows), m,
                             {grad_y_.data(), kRows, outputs_},
                             {grad_x.data(), kRows, inputs_}, false, m, m));
    ASSERT_OK(contraction.FinishBackward(counting.get(), cores.cores(), m, m,
                                         cores.grads(), m));
    EXPECT_EQ(costs.total.multiply_adds, cost.backward())
        << ::testing::PrintToString(ends);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TtContractionTest,
    ::testing::Values(Case{{{5}, {3}, {2}}}, Case{{{2, 3}, {4}, {3, 2}}},
                      Case{{{5}, {2, 3}, {4, 3}}},
                      Case{{{3, 2}, {2, 4}, {3, 5, 2}}},
                      Case{{{3, 2}, {2, 4}, {3, 5, 2}}, 7},
                      Case{{{2, 3, 2}, {2, 2, 3}, {2, 4, 3, 4, 2}}},
                      Case{{{1, 4, 1}, {1, 3}, {1, 2, 2, 2}}},
                      Case{{{2, 2, 1, 3}, {2, 1, 2}, {2, 3, 3, 2, 4, 3}}}));

TEST(TtContractionShapeTest, RefusesOtherGroupsAndOperands) {
  const TtShape shape = {{3, 2}, {2, 4}, {3, 5, 2}};
  for (const std::vector<int>& ends :
       std::vector<std::vector<int>>{{}, {2}, {2, 2, 4}, {4, 2}, {0, 4}, {5}}) {
    EXPECT_THAT(TtContraction::Create(shape, ends, 8),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(TtContraction::Create(shape, {4}, 9),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TtContraction::Create(shape, {4}, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const TtContraction contraction,
                       TtContraction::Create(shape, {1, 4}, 8));
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  const TestCores cores(shape);
  std::vector<float> memory(1000);
  float* m = memory.data();
  EXPECT_THAT(contraction.Forward(backend.get(), cores.cores(), m, {m, 2, 5}, m,
                                  {m, 2, 8}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(contraction.Forward(backend.get(), cores.cores(), m, {m, 2, 6, 7},
                                  m, {m, 2, 8}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::kernels
