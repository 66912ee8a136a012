// Tests the forms of the feed-forward branch against each other.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/rank_space_ffn.h"
#include "tests/fakes/bf16_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/encoder/bf16_ffn_branch.h"
#include "worker/trainer/model/encoder/make_ffn_branch.h"
#include "worker/trainer/model/encoder/rank_space_ffn_branch.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/transformer/hidden_ffn_branch.h"

namespace comera::trainer {
namespace {

using kernels::ConstMatrix;
using kernels::reference::DoubleMatrix;

enum class Kind { kHidden, kRankSpace, kBf16, kBf16Blocks, kPlanned };

// The FFN of the small model's first layer, on its own, in one of its forms.
class BranchUnderTest {
 public:
  BranchUnderTest(const ModelConfig& config, Kind kind, int64_t max_rows)
      : config_(config),
        cpu_(kernels::CreateCpuBackend({2, 0})),
        bf16_(cpu_.get()),
        memory_(&bf16_, /*stages=*/1),
        layout_(MakeModelLayout(config_)) {
    const bool bf16 = kind == Kind::kBf16 || kind == Kind::kBf16Blocks;
    plan_.backend = bf16 ? &bf16_ : cpu_.get();
    plan_.rows_elsewhere = bf16;
    plan_.memory = &memory_;
    plan_ = plan_.AtStage(0);
    plan_.config = &config_;
    plan_.layout = &layout_;
    plan_.max_rows = max_rows;
    const auto linear = [&](const std::string& part) {
      std::unique_ptr<Linear> made =
          MakeLinear(plan_, "layers.0.ffn_" + part, max_rows, "ffn." + part);
      (part == "up" ? up : down) = made->rank_space();
      return made;
    };
    if (kind == Kind::kHidden) {
      auto first = linear("up"), second = linear("down");
      branch = std::make_unique<HiddenFfnBranch>(
          plan_, 0, kernels::Activation::kGelu, /*gate=*/nullptr,
          std::move(first), std::move(second));
    } else if (kind == Kind::kRankSpace) {
      auto first = linear("up"), second = linear("down");
      branch = std::make_unique<RankSpaceFfnBranch>(plan_, std::move(first),
                                                    std::move(second));
    } else if (bf16) {
      auto first = linear("up"), second = linear("down");
      bf16_branch = std::make_unique<Bf16FfnBranch>(
          plan_, 0, kernels::Activation::kGelu, std::move(first),
          std::move(second),
          kind == Kind::kBf16 ? Bf16FfnBranch::kBlockElements
                              : 50 * config_.ffn);
    } else {
      branch = MakeFfnBranch(plan_, 0);
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

  // Forward and backward; y and grad_x as they come out.
  void Run(const std::vector<float>& x, const std::vector<float>& grad_y,
           int64_t rows) {
    Step step;
    step.parameters = parameters.data();
    step.gradients = gradients.data();
    step.train = true;
    const int64_t hidden = config_.hidden;
    y.assign(rows * hidden, 7);
    grad_x.assign(rows * hidden, 1);  // accumulated on
    if (bf16_branch != nullptr) {
      RunInBf16(step, x, grad_y, rows);
      return;
    }
    const ConstMatrix in(x.data(), rows, hidden);
    ASSERT_OK(branch->Contract(step));
    ASSERT_OK(branch->Forward(step, in, {y.data(), rows, hidden}));
    ASSERT_OK(branch->Backward(step, in, {grad_y.data(), rows, hidden},
                               {grad_x.data(), rows, hidden}));
    ASSERT_OK(branch->FinishBackward(step));
  }

 private:
  void RunInBf16(const Step& step, const std::vector<float>& x,
                 const std::vector<float>& grad_y, int64_t rows) {
    const int64_t hidden = config_.hidden;
    const auto round = [](const std::vector<float>& values) {
      std::vector<uint16_t> rounded(values.size());
      std::transform(values.begin(), values.end(), rounded.begin(),
                     kernels::ToBf16);
      return rounded;
    };
    const auto widen = [](const std::vector<uint16_t>& from,
                          std::vector<float>* to) {
      std::transform(from.begin(), from.end(), to->begin(), kernels::FromBf16);
    };
    std::vector<uint16_t> in = round(x), out = round(y), to = round(grad_x);
    std::vector<uint16_t> from = round(grad_y);
    const kernels::Bf16Matrix in_rows(in.data(), rows, hidden);
    ASSERT_OK(bf16_branch->Contract(step));
    ASSERT_OK(bf16_branch->Forward(step, in_rows, {out.data(), rows, hidden}));
    ASSERT_OK(bf16_branch->Backward(
        step, in_rows, kernels::Bf16Matrix(from.data(), rows, hidden),
        {to.data(), rows, hidden}));
    ASSERT_OK(bf16_branch->FinishBackward(step));
    widen(out, &y);
    widen(to, &grad_x);
  }

  const ModelConfig config_;
  std::unique_ptr<kernels::Backend> cpu_;
  kernels::Bf16Backend bf16_;
  StepMemory memory_;
  ModelLayout layout_;
  Plan plan_;

 public:
  std::unique_ptr<Branch> branch;
  std::unique_ptr<Bf16Branch> bf16_branch;
  RankSpaceLinear *up = nullptr, *down = nullptr;
  std::vector<float> parameters, gradients, y, grad_x;
};

std::vector<float> Random(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

// Within `tolerance` of the largest.
void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                 double tolerance = 5e-6) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (float value : want)
    largest = std::max<double>(largest, std::fabs(value));
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * largest) << i;
  }
}

ModelConfig Config() { return SmallConfig(v1::ModelSpec::MASKED_LM); }

void ExpectBothWaysToBeTheSame(const ModelConfig& config) {
  constexpr int64_t kMaxRows = 300;
  BranchUnderTest hidden(config, Kind::kHidden, kMaxRows);
  BranchUnderTest rank_space(config, Kind::kRankSpace, kMaxRows);
  const int64_t width = config.hidden;
  // Rows of more than one block of the hidden layer; then fewer, in the same
  // memory, with gradients added to those of before.
  for (int64_t rows : {kMaxRows, int64_t{7}}) {
    const std::vector<float> x = Random(rows * width, 1);
    const std::vector<float> grad_y = Random(rows * width, 2);
    hidden.Run(x, grad_y, rows);
    rank_space.Run(x, grad_y, rows);
    ExpectClose(rank_space.y, hidden.y);
    ExpectClose(rank_space.grad_x, hidden.grad_x);
    ExpectClose(rank_space.gradients, hidden.gradients);
  }
  double sum = 0;
  for (float g : hidden.gradients) sum += std::fabs(g);
  EXPECT_GT(sum, 1);
}

TEST(FfnBranchTest, BothWaysAreTheSameFunction) {
  ExpectBothWaysToBeTheSame(Config());
}

TEST(FfnBranchTest, BothWaysAreTheSameFunctionWithASiluInside) {
  ModelConfig config = Config();
  SetInnerSilu(&config);
  ExpectBothWaysToBeTheSame(config);
}

TEST(FfnBranchTest, RowsInBfloat16DifferByTheirRounding) {
  ModelConfig config = Config();
  for (const char* part : {"ffn_up", "ffn_down"}) {
    Factorisation& f =
        config.layers_by_name.at(absl::StrCat("layers.0.", part));
    f.ranks[f.input_modes.size() - 1] = 8;
  }
  constexpr int64_t kMaxRows = 300;
  BranchUnderTest floats(config, Kind::kHidden, kMaxRows);
  BranchUnderTest bf16(config, Kind::kBf16, kMaxRows);
  BranchUnderTest blocks(config, Kind::kBf16Blocks, kMaxRows);
  for (int64_t rows : {kMaxRows, int64_t{7}}) {
    const std::vector<float> x = Random(rows * config.hidden, 1);
    const std::vector<float> grad_y = Random(rows * config.hidden, 2);
    floats.Run(x, grad_y, rows);
    bf16.Run(x, grad_y, rows);
    blocks.Run(x, grad_y, rows);
    ExpectClose(bf16.y, floats.y, 2e-2);
    ExpectClose(bf16.grad_x, floats.grad_x, 2e-2);
    ExpectClose(bf16.gradients, floats.gradients, 2e-2);
    EXPECT_NE(bf16.y, floats.y);
    // Blocks of 50 rows.
    EXPECT_EQ(blocks.y, bf16.y);
    EXPECT_EQ(blocks.grad_x, bf16.grad_x);
    ExpectClose(blocks.gradients, bf16.gradients);
  }
}

TEST(FfnBranchTest, ForwardIsTheDoubleReference) {
  constexpr int64_t kRows = 40;
  BranchUnderTest test(Config(), Kind::kRankSpace, kRows);
  const int64_t width = Config().hidden;
  const std::vector<float> x = Random(kRows * width, 1);
  test.Run(x, x, kRows);
  const auto widen = [](ConstMatrix m) {
    DoubleMatrix wide(m.rows, m.cols);
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int64_t j = 0; j < m.cols; ++j) {
        wide.at(i, j) = m.data[i * m.stride + j];
      }
    }
    return wide;
  };
  const auto with_ones = [](const DoubleMatrix& m) {
    DoubleMatrix wide(m.rows, m.cols + 1);
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int64_t j = 0; j < m.cols; ++j) wide.at(i, j) = m.at(i, j);
      wide.at(i, m.cols) = 1;
    }
    return wide;
  };
  const DoubleMatrix t1 = kernels::reference::Product(
      widen(ConstMatrix(x.data(), kRows, width)), widen(test.up->A()));
  DoubleMatrix t2(kRows, test.down->rank());
  kernels::reference::RankSpaceFfn(with_ones(t1), widen(test.up->BWithBias()),
                                   widen(test.down->A()), &t2);
  const DoubleMatrix y =
      kernels::reference::Product(with_ones(t2), widen(test.down->BWithBias()));
  ExpectClose(test.y, {y.values.begin(), y.values.end()});
}

TEST(FfnBranchTest, GradientMayTakeItsSourcesPlace) {
  constexpr int64_t kRows = 30;
  const int64_t width = Config().hidden;
  const std::vector<float> x = Random(kRows * width, 1);
  const std::vector<float> grad_y = Random(kRows * width, 2);
  for (Kind kind : {Kind::kHidden, Kind::kRankSpace}) {
    BranchUnderTest apart(Config(), kind, kRows);
    BranchUnderTest together(Config(), kind, kRows);
    apart.Run(x, grad_y, kRows);
    Step step;
    step.parameters = together.parameters.data();
    step.gradients = together.gradients.data();
    const ConstMatrix in(x.data(), kRows, width);
    std::vector<float> y(kRows * width), grad = grad_y;
    ASSERT_OK(together.branch->Contract(step));
    ASSERT_OK(together.branch->Forward(step, in, {y.data(), kRows, width}));
    ASSERT_OK(together.branch->Backward(step, in, {grad.data(), kRows, width},
                                        {grad.data(), kRows, width}));
    ASSERT_OK(together.branch->FinishBackward(step));
    for (size_t i = 0; i < grad.size(); ++i) {
      ASSERT_NEAR(grad[i], grad_y[i] + (apart.grad_x[i] - 1), 1e-4) << i;
    }
    ExpectClose(together.gradients, apart.gradients);
  }
}

TEST(FfnBranchTest, OrdinaryWayWithoutFactors) {
  const auto kind = [](const ModelConfig& config) {
    BranchUnderTest made(config, Kind::kPlanned, 8);
    return dynamic_cast<RankSpaceFfnBranch*>(made.branch.get()) != nullptr;
  };
  EXPECT_TRUE(kind(Config()));
  ModelConfig dense = Config();
  dense.layers_by_name["layers.0.ffn_down"] = {};
  EXPECT_FALSE(kind(dense));
  ModelConfig pruned = Config();
  for (int64_t& rank : pruned.layers_by_name["layers.0.ffn_up"].ranks) rank = 0;
  EXPECT_FALSE(kind(pruned));
}

}  // namespace
}  // namespace comera::trainer
