// Tests the forms of the attention branch against each other.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/encoder/make_attention_branch.h"
#include "worker/trainer/model/encoder/rank_space_attention_branch.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/transformer/ordinary_attention_branch.h"

namespace comera::trainer {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

enum class Kind { kOrdinary, kRankSpace, kPlanned };

constexpr int64_t kMaxSamples = 6;

// The attention of the small model's first layer, on its own, in one of its
// forms.
class BranchUnderTest {
 public:
  BranchUnderTest(const ModelConfig& config, Kind kind)
      : config_(config),
        backend_(kernels::CreateCpuBackend({2, 0})),
        memory_(backend_.get(), /*stages=*/1),
        layout_(MakeModelLayout(config_)) {
    plan_.backend = backend_.get();
    plan_.memory = &memory_;
    plan_ = plan_.AtStage(0);
    plan_.config = &config_;
    plan_.layout = &layout_;
    plan_.max_batch = kMaxSamples;
    plan_.max_rows = kMaxSamples * config_.length;
    plan_.max_sequences = kMaxSamples;
    const auto linear = [&](const char* part) {
      return MakeLinear(plan_, std::string("layers.0.") + part, plan_.max_rows,
                        std::string("attention.") + part);
    };
    if (kind == Kind::kPlanned) {
      branch = MakeAttentionBranch(plan_, 0);
    } else {
      AttentionProjections projections = {linear("query"), linear("key"),
                                          linear("value"), linear("output")};
      if (kind == Kind::kOrdinary) {
        branch = std::make_unique<OrdinaryAttentionBranch>(
            plan_, 0, std::move(projections));
      } else {
        branch = std::make_unique<RankSpaceAttentionBranch>(
            plan_, 0, std::move(projections));
      }
    }
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
  }

  // Forward and backward over sequences that end at `ends`, with dropout.
  // `together`: the gradient of x begins as that of y, in its place.
  void Run(const std::vector<float>& x, const std::vector<float>& grad_y,
           const std::vector<int32_t>& ends, bool together = false) {
    std::vector<int32_t> offsets = {0}, row_ids;
    Step step;
    for (int32_t end : ends) {
      step.max_length =
          std::max<int64_t>(step.max_length, end - offsets.back());
      offsets.push_back(end);
    }
    const int64_t rows = ends.back(), hidden = config_.hidden;
    for (int32_t i = 0; i < rows; ++i) row_ids.push_back(3 * i);
    step.parameters = parameters.data();
    step.gradients = gradients.data();
    step.train = true;
    step.state = &state_;
    step.tokens = rows;
    step.sequences = static_cast<int64_t>(ends.size());
    step.offsets = {offsets.data(), step.sequences + 1};
    step.row_ids = row_ids.data();
    step.length = config_.length;
    y.assign(rows * hidden, 7);
    grad_x = together ? grad_y : std::vector<float>(rows * hidden, 1);
    const ConstMatrix in(x.data(), rows, hidden);
    ASSERT_OK(branch->Contract(step));
    ASSERT_OK(branch->Forward(step, in, Matrix(y.data(), rows, hidden)));
    const float* from = together ? grad_x.data() : grad_y.data();
    ASSERT_OK(branch->Backward(step, in, ConstMatrix(from, rows, hidden),
                               Matrix(grad_x.data(), rows, hidden)));
    ASSERT_OK(branch->FinishBackward(step));
  }

 private:
  const ModelConfig config_;
  const kernels::StepState state_ = {11, 12};
  std::unique_ptr<kernels::Backend> backend_;
  StepMemory memory_;
  ModelLayout layout_;
  Plan plan_;

 public:
  std::unique_ptr<Branch> branch;
  std::vector<float> parameters, gradients, y, grad_x;
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

ModelConfig Config() {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  config.dropout = 0.3f;
  return config;
}

void ExpectBothWaysToBeTheSame(const ModelConfig& config) {
  BranchUnderTest ordinary(config, Kind::kOrdinary);
  BranchUnderTest rank_space(config, Kind::kRankSpace);
  const int64_t width = config.hidden;
  // Sequences of several lengths; then fewer, in the same memory, with
  // gradients added to those of before.
  for (const std::vector<int32_t>& ends :
       {std::vector<int32_t>{5, 10, 14, 16, 17, 18}, {4, 5}}) {
    const std::vector<float> x = Random(ends.back() * width, 1);
    const std::vector<float> grad_y = Random(ends.back() * width, 2);
    ordinary.Run(x, grad_y, ends);
    rank_space.Run(x, grad_y, ends);
    ExpectClose(rank_space.y, ordinary.y);
    ExpectClose(rank_space.grad_x, ordinary.grad_x);
    ExpectClose(rank_space.gradients, ordinary.gradients);
  }
}

TEST(AttentionBranchTest, BothWaysAreTheSameFunction) {
  ExpectBothWaysToBeTheSame(Config());
}

TEST(AttentionBranchTest, BothWaysAreTheSameFunctionWithASiluInside) {
  ModelConfig config = Config();
  SetInnerSilu(&config);
  ExpectBothWaysToBeTheSame(config);
}

TEST(AttentionBranchTest, GradientMayTakeItsSourcesPlace) {
  const int64_t width = Config().hidden;
  const std::vector<int32_t> ends = {5, 7};
  const std::vector<float> x = Random(7 * width, 1);
  const std::vector<float> grad_y = Random(7 * width, 2);
  for (Kind kind : {Kind::kOrdinary, Kind::kRankSpace}) {
    BranchUnderTest apart(Config(), kind), together(Config(), kind);
    apart.Run(x, grad_y, ends);
    together.Run(x, grad_y, ends, true);
    for (size_t i = 0; i < grad_y.size(); ++i) {
      ASSERT_NEAR(together.grad_x[i], grad_y[i] + (apart.grad_x[i] - 1), 1e-4);
    }
    EXPECT_EQ(together.gradients, apart.gradients);
  }
}

TEST(AttentionBranchTest, RankSpaceWhereItCostsLessAndAllFacesAreThere) {
  const auto rank_space = [](const ModelConfig& config) {
    BranchUnderTest made(config, Kind::kPlanned);
    return dynamic_cast<RankSpaceAttentionBranch*>(made.branch.get()) !=
           nullptr;
  };
  EXPECT_TRUE(rank_space(Config()));
  ModelConfig narrow = Config();  // ranks above the width of a head
  narrow.heads = 6;
  EXPECT_FALSE(rank_space(narrow));
  for (const char* part : {"query", "key", "value", "output"}) {
    ModelConfig dense = Config(), pruned = Config();
    const std::string name = std::string("layers.0.") + part;
    dense.layers_by_name[name] = {};
    EXPECT_FALSE(rank_space(dense)) << part;
    for (int64_t& rank : pruned.layers_by_name[name].ranks) rank = 0;
    EXPECT_FALSE(rank_space(pruned)) << part;
  }
}

}  // namespace
}  // namespace comera::trainer
