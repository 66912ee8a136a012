// Tests a residual block around both kinds of branch.
#include "worker/trainer/model/encoder/residual_block.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/encoder/rank_space_ffn_branch.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/transformer/hidden_ffn_branch.h"

namespace comera::trainer {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

// The small model's first feed-forward block around a branch that ends in rank
// space or one that does not.
class BlockUnderTest {
 public:
  BlockUnderTest(const ModelConfig& config, bool rank_space, int64_t max_rows)
      : config_(config),
        backend_(kernels::CreateCpuBackend({2, 0})),
        memory_(backend_.get(), /*stages=*/1),
        layout_(MakeModelLayout(config_)),
        row_ids_(max_rows) {
    plan_.backend = backend_.get();
    plan_.memory = &memory_;
    plan_ = plan_.AtStage(0);
    plan_.config = &config_;
    plan_.layout = &layout_;
    plan_.max_rows = max_rows;
    const auto linear = [&](const std::string& part) {
      return MakeLinear(plan_, "layers.0.ffn_" + part, max_rows, "ffn." + part);
    };
    std::unique_ptr<Branch> branch;
    if (rank_space) {
      branch = std::make_unique<RankSpaceFfnBranch>(plan_, linear("up"),
                                                    linear("down"));
    } else {
      branch = std::make_unique<HiddenFfnBranch>(
          plan_, 0, kernels::Activation::kGelu, /*gate=*/nullptr, linear("up"),
          linear("down"));
    }
    block_.emplace(plan_, "encoder.layers.0.ffn", "block", /*site=*/3,
                   std::move(branch));
    EXPECT_OK(memory_.Commit());
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 0.5f);
    parameters.resize(layout_.parameters.size());
    for (float& p : parameters) p = normal(random);
    for (const Parameter& p : layout_.parameters.parameters()) {
      if (p.kind != ParameterKind::kRank) continue;
      for (int64_t i = 0; i < p.size; ++i) {
        parameters[p.offset + i] = 0.5f + 0.1f * static_cast<float>(i);
      }
    }
    gradients.resize(parameters.size());
    for (int64_t i = 0; i < max_rows; ++i) {
      row_ids_[i] = static_cast<int32_t>(3 * i);
    }
  }

  // Forward and backward; y, grad and what output() stands for as they come
  // out. `scaled`: backward gets x as gamma and beta times rows.
  void Run(const std::vector<float>& rows_in, const std::vector<float>& grad_y,
           int64_t rows, bool scaled) {
    Step step;
    step.parameters = parameters.data();
    step.gradients = gradients.data();
    step.train = true;
    step.state = &state_;
    step.tokens = rows;
    step.length = rows;
    step.row_ids = row_ids_.data();
    const int64_t hidden = config_.hidden;
    const std::vector<float> gamma(hidden, 0.5f), beta(hidden, -0.25f);
    StreamInput x = {ConstMatrix(rows_in.data(), rows, hidden), {}, {}};
    y = rows_in;
    if (scaled) {
      x.gamma = {gamma.data(), hidden};
      x.beta = {beta.data(), hidden};
      for (float& value : y) value = value * 0.5f - 0.25f;
    }
    grad = grad_y;
    std::vector<float> scratch(y.size());
    ASSERT_OK(block_->Contract(step));
    ASSERT_OK(block_->Forward(step, Matrix(y.data(), rows, hidden)));
    const StreamInput out = block_->output(step);
    output.resize(y.size());
    ASSERT_OK(backend_->LayerNormOutput({}, out.rows, out.gamma, out.beta,
                                        {output.data(), rows, hidden}));
    ASSERT_OK(block_->Backward(step, x, Matrix(grad.data(), rows, hidden),
                               Matrix(scratch.data(), rows, hidden)));
    ASSERT_OK(block_->FinishBackward(step));
  }

 private:
  const ModelConfig config_;
  const kernels::StepState state_ = {11, 12};
  std::unique_ptr<kernels::Backend> backend_;
  StepMemory memory_;
  ModelLayout layout_;
  Plan plan_;
  std::optional<ResidualBlock> block_;
  std::vector<int32_t> row_ids_;

 public:
  std::vector<float> parameters, gradients, y, output, grad;
};

std::vector<float> Random(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

void ExpectClose(const std::vector<float>& got,
                 const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (float v : want) largest = std::max<double>(largest, std::fabs(v));
  EXPECT_GT(largest, 0);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-5 * largest) << i;
  }
}

ModelConfig Config(float dropout, bool silu = false) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  config.dropout = dropout;
  if (silu) SetInnerSilu(&config);
  return config;
}

TEST(ResidualBlockTest, RankSpaceEndIsTheSameFunction) {
  constexpr int64_t kMaxRows = 140;
  for (const auto& [dropout, silu] :
       {std::pair(0.0f, false), {0.3f, false}, {0.3f, true}}) {
    BlockUnderTest matrix(Config(dropout, silu), false, kMaxRows);
    BlockUnderTest rank_space(Config(dropout, silu), true, kMaxRows);
    // Then fewer rows in the same memory, gradients added to those of before.
    for (int64_t rows : {kMaxRows, int64_t{7}}) {
      for (bool scaled : {false, true}) {
        const int64_t size = rows * Config(0).hidden;
        const std::vector<float> x = Random(size, 1), grad = Random(size, 2);
        matrix.Run(x, grad, rows, scaled);
        rank_space.Run(x, grad, rows, scaled);
        ExpectClose(rank_space.y, matrix.y);
        ExpectClose(rank_space.grad, matrix.grad);
        ExpectClose(rank_space.gradients, matrix.gradients);
        ExpectClose(matrix.output, matrix.y);
        ExpectClose(rank_space.output, rank_space.y);
      }
    }
  }
}

// Central differences of sum(y * weights), with dropout.
TEST(ResidualBlockTest, GradientsAreTheDerivatives) {
  constexpr int64_t kRows = 5;
  BlockUnderTest test(Config(0.3f), true, kRows);
  const int64_t size = kRows * Config(0).hidden;
  const std::vector<float> weights = Random(size, 2);
  std::vector<float> x = Random(size, 1);
  test.Run(x, weights, kRows, false);
  const std::vector<float> gradients = test.gradients, grad = test.grad;
  const auto slope = [&](float* value) {
    constexpr float kStep = 4e-3f;
    const float before = *value;
    const auto loss = [&](float at) {
      *value = at;
      test.Run(x, weights, kRows, false);
      double sum = 0;
      for (int64_t i = 0; i < size; ++i) sum += test.y[i] * weights[i];
      return sum;
    };
    const double difference = loss(before + kStep) - loss(before - kStep);
    *value = before;
    return difference / (2 * kStep);
  };
  double largest = 0;
  for (float g : gradients) largest = std::max<double>(largest, std::fabs(g));
  int checked = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] == 0) continue;  // another layer's
    ASSERT_NEAR(gradients[i], slope(&test.parameters[i]), 2e-3 * largest) << i;
    ++checked;
  }
  EXPECT_GT(checked, 300);
  for (int64_t i = 0; i < size; ++i) {
    ASSERT_NEAR(grad[i], slope(&x[i]), 2e-3 * largest) << i;
  }
}

}  // namespace
}  // namespace comera::trainer
