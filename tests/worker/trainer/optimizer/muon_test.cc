// Tests which parameters Muon steps on, and how far.
#include "worker/trainer/optimizer/muon.h"

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/initialise.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

using Values = std::vector<float>;

class MuonTest : public ::testing::Test {
 protected:
  MuonTest()
      : backend_(kernels::CreateCpuBackend({/*threads=*/1})),
        config_(SmallConfig(v1::ModelSpec::MASKED_LM)),
        layout_(MakeModelLayout(config_).parameters),
        matrices_(OrthogonalMatrices(config_, layout_)),
        parameters_(layout_.size()),
        gradients_(layout_.size()),
        first_(layout_.size()),
        second_(layout_.size()) {
    InitialiseParameters(config_, 1, parameters_.data());
    for (size_t i = 0; i < gradients_.size(); ++i) {
      gradients_[i] = std::sin(1.0f + 3 * i);
    }
    options_.adamw.learning_rate_cores = 0.01;
  }

  std::unique_ptr<Muon> Make() {
    auto muon = Muon::Create(options_, matrices_, layout_, backend_.get());
    EXPECT_OK(muon);
    return std::move(*muon);
  }
  static kernels::Vector View(Values& v) {
    return {v.data(), static_cast<int64_t>(v.size())};
  }
  kernels::ConstVector Gradients() const {
    return {gradients_.data(), static_cast<int64_t>(gradients_.size())};
  }
  OptimizerState State() {
    OptimizerState state;
    state.first_moment = View(first_);
    state.second_moment = View(second_);
    return state;
  }
  double Norm(const Values& values, const OrthogonalMatrix& m) const {
    const int64_t at = layout_[m.parameter].offset;
    double sum = 0;
    for (int64_t i = at; i < at + m.rows * m.cols; ++i) {
      sum += static_cast<double>(values[i]) * values[i];
    }
    return std::sqrt(sum);
  }
  // How far the matrix moved from `before`, in units of its own norm.
  double Moved(const Values& before, const OrthogonalMatrix& m) const {
    Values change = parameters_;
    for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
    return Norm(change, m) / Norm(before, m);
  }

  std::unique_ptr<kernels::Backend> backend_;
  const ModelConfig config_;
  const ParameterLayout layout_;
  const std::vector<OrthogonalMatrix> matrices_;
  MuonOptions options_;
  Values parameters_, gradients_, first_, second_;
};

TEST_F(MuonTest, MatricesAreTheCoresAsTheyFaceTheMiddle) {
  int cores = 0;
  for (const Parameter& p : layout_.parameters()) {
    cores += p.kind == ParameterKind::kCore;
  }
  EXPECT_GE(static_cast<int>(matrices_.size()), cores);
  const auto rows = [&](const std::string& name) -> int64_t {
    for (const OrthogonalMatrix& m : matrices_) {
      if (layout_[m.parameter].name == name) return m.rows;
    }
    return -1;
  };
  const std::string query = "encoder.layers.0.attention.query.core.";
  const Parameter& first = layout_[layout_.Find(query + "0")];
  const Parameter& second = layout_[layout_.Find(query + "1")];
  EXPECT_EQ(rows(query + "0"), first.shape[0] * first.shape[1]);
  EXPECT_EQ(rows(query + "1"), second.shape[0] * second.shape[1]);
  const int last = static_cast<int>(
      2 * config_.layers_by_name.at("layers.0.query").input_modes.size() - 1);
  const Parameter& end = layout_[layout_.Find(query + std::to_string(last))];
  EXPECT_EQ(rows(query + std::to_string(last)), end.shape[0]);
  EXPECT_EQ(rows("encoder.embedding.position"), -1);
  EXPECT_EQ(rows("encoder.layers.0.attention.query.rank.0"), -1);
}

// Whatever the gradient's length and the matrix's own scale.
TEST_F(MuonTest, EveryMatrixMovesByTheSameShareOfItself) {
  for (const OrthogonalMatrix& m : matrices_) {
    const int64_t at = layout_[m.parameter].offset;
    for (int64_t i = at; i < at + m.rows * m.cols; ++i) {
      parameters_[i] *= static_cast<float>(1 + m.parameter);
      gradients_[i] *= static_cast<float>(std::pow(10.0, m.parameter % 4));
    }
  }
  const Values before = parameters_;
  ASSERT_OK(Make()->Step(1, 0.5, View(parameters_), Gradients(), State()));
  for (const OrthogonalMatrix& m : matrices_) {
    // Singular values end between 0.68 and 1.13, those of a gradient of
    // deficient rank at less.
    EXPECT_LE(Moved(before, m), 0.005 * 1.2) << layout_[m.parameter].name;
    EXPECT_GT(Moved(before, m), 0.005 * 0.2) << layout_[m.parameter].name;
  }
}

TEST_F(MuonTest, WhatIsNoMatrixFollowsAdamW) {
  Values expected = parameters_, m(expected.size()), v(expected.size());
  OptimizerState state;
  state.first_moment = View(m);
  state.second_moment = View(v);
  ASSERT_OK_AND_ASSIGN(auto adamw,
                       AdamW::Create(options_.adamw, layout_, backend_.get()));
  ASSERT_OK(adamw->Step(1, 1, View(expected), Gradients(), state));
  ASSERT_OK(Make()->Step(1, 1, View(parameters_), Gradients(), State()));
  for (int i = 0; i < static_cast<int>(layout_.parameters().size()); ++i) {
    bool matrix = false;
    for (const OrthogonalMatrix& other : matrices_) {
      matrix = matrix || other.parameter == i;
    }
    const Parameter& p = layout_[i];
    for (int64_t e = p.offset; e < p.offset + p.size; ++e) {
      if (matrix) {
        EXPECT_EQ(second_[e], 0) << p.name;
      } else {
        EXPECT_EQ(parameters_[e], expected[e]) << p.name;
      }
    }
  }
}

TEST_F(MuonTest, EnqueueDoesWhatStepDoes) {
  const Values before = parameters_;
  ASSERT_OK(Make()->Step(1, 0.5, View(parameters_), Gradients(), State()));
  const Values stepped = parameters_;
  parameters_ = before;
  std::fill(first_.begin(), first_.end(), 0.0f);
  std::fill(second_.begin(), second_.end(), 0.0f);
  const std::unique_ptr<Muon> muon = Make();
  kernels::StepState state;
  muon->FillState(1, 0.5, &state);
  ASSERT_OK(muon->Enqueue(&state, View(parameters_), Gradients(), State()));
  for (size_t i = 0; i < stepped.size(); ++i) {
    ASSERT_NEAR(parameters_[i], stepped[i], 1e-7 + 1e-6 * std::fabs(stepped[i]));
  }
}

TEST_F(MuonTest, GradientsThatAreNotFiniteChangeNothing) {
  gradients_[layout_[matrices_[0].parameter].offset] =
      std::numeric_limits<float>::infinity();
  const Values before = parameters_;
  ASSERT_OK_AND_ASSIGN(
      const double norm,
      Make()->Step(1, 1, View(parameters_), Gradients(), State()));
  EXPECT_FALSE(std::isfinite(norm));
  EXPECT_EQ(parameters_, before);
  const std::unique_ptr<Muon> muon = Make();
  kernels::StepState state;
  muon->FillState(1, 1, &state);
  ASSERT_OK(muon->Enqueue(&state, View(parameters_), Gradients(), State()));
  EXPECT_EQ(parameters_, before);
}

}  // namespace
}  // namespace comera::trainer
