// The backward pass in pieces: the gradients are those of the whole pass, and
// no piece reads a block of parameters that an earlier one has completed.
#include "worker/trainer/model/transformer/transformer_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/gradient_blocks.h"

namespace comera::trainer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSamples = 4;

struct Case {
  std::string name;
  ModelConfig config;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const bool dense : {true, false}) {
    const std::string form = dense ? "dense " : "tensorised ";
    ModelConfig masked_lm = SmallConfig(v1::ModelSpec::MASKED_LM, dense);
    cases.push_back({form + "classifier",
                     SmallConfig(v1::ModelSpec::ENCODER_CLASSIFIER, dense)});
    cases.push_back({form + "masked LM", masked_lm});
    masked_lm.dropout = 0.2f;
    cases.push_back({form + "masked LM with dropout", masked_lm});
    masked_lm.tie_output = true;
    masked_lm.layers_by_name.erase("output");
    cases.push_back({form + "tied masked LM", masked_lm});
    ModelConfig llama = SmallDecoder(v1::ModelSpec::LLAMA, dense);
    cases.push_back({form + "LLaMA", llama});
    llama.tie_output = true;
    llama.layers_by_name.erase("output");
    cases.push_back({form + "tied LLaMA", llama});
    ModelConfig gpt2 = SmallDecoder(v1::ModelSpec::GPT2, dense);
    gpt2.dropout = 0.2f;
    cases.push_back({form + "GPT-2 with dropout", gpt2});
  }
  return cases;
}

Batch SmallBatch(const ModelConfig& config) {
  return RandomBatch(config, kSamples, /*label_rows=*/7, /*padding=*/1, 1);
}

// The gradients of the batch, found block by block. A block that is done loses
// its parameters and gradients, so that a later piece that read them would
// spread NaN.
std::vector<float> GradientsByBlock(TestModel& m, const Batch& batch) {
  m.Loss(batch, /*train=*/true);
  const ParameterLayout& layout = m.model->layout();
  const GradientBlocks blocks(m.config, layout);
  std::vector<float> buffer(blocks.buffer_size(), kNan);
  std::vector<float> found(layout.trained_size(), kNan);
  EXPECT_OK(m.model->BackwardByBlock(
      m.parameters.data(), {buffer.data(), blocks.buffer_size()},
      [&](const ParameterRange& block, kernels::Vector gradients) {
        EXPECT_EQ(gradients.size, block.size);
        std::copy_n(gradients.data, block.size, found.begin() + block.first);
        std::fill_n(gradients.data, block.size, kNan);
        std::fill_n(m.parameters.begin() + block.first, block.size, kNan);
        return absl::OkStatus();
      }));
  return found;
}

TEST(TransformerModelTest, BlocksHaveTheGradientsOfTheWholePass) {
  for (const Case& test : Cases()) {
    TestModel whole(test.config, kSamples), pieces(test.config, kSamples);
    const Batch batch = SmallBatch(test.config);
    whole.Gradient(batch);
    const std::vector<float> found = GradientsByBlock(pieces, batch);
    for (const Parameter& p : whole.model->layout().parameters()) {
      for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
        ASSERT_NEAR(found[i], whole.gradients[i],
                    1e-6 * (1 + std::fabs(whole.gradients[i])))
            << test.name << ", " << p.name << "[" << i - p.offset << "]";
      }
    }
  }
}

TEST(TransformerModelTest, AWholePassMayFollowOneInBlocks) {
  for (const Case& test : Cases()) {
    const Batch batch = SmallBatch(test.config);
    TestModel fresh(test.config, kSamples), used(test.config, kSamples);
    const std::vector<float> parameters = used.parameters;
    GradientsByBlock(used, batch);
    used.parameters = parameters;
    fresh.Gradient(batch);
    used.Gradient(batch);
    EXPECT_EQ(used.gradients, fresh.gradients) << test.name;
  }
}

// The gradients of a bucket are lost to the pieces behind it.
TEST(TransformerModelTest, BucketsHaveTheGradientsOfTheWholePass) {
  for (const Case& test : Cases()) {
    const Batch batch = SmallBatch(test.config);
    TestModel whole(test.config, kSamples), split(test.config, kSamples);
    whole.Gradient(batch);
    split.Loss(batch, /*train=*/true);
    split.gradients.assign(whole.gradients.size(), 0);
    const std::vector<ParameterRange> buckets = split.model->GradientBuckets(1);
    EXPECT_EQ(static_cast<int64_t>(buckets.size()), 2 * test.config.layers + 1);
    std::vector<float> found(whole.gradients.size());
    for (const ParameterRange& bucket : buckets) {
      ASSERT_OK(split.model->BackwardBucket(split.parameters.data(),
                                            split.gradients.data(), bucket));
      for (int64_t i = bucket.first; i < bucket.first + bucket.size; ++i) {
        found[i] = std::exchange(split.gradients[i], kNan);
      }
    }
    EXPECT_EQ(found, whole.gradients) << test.name;
  }
}

TEST(TransformerModelTest, RefusesABufferOfAnotherSizeAndAPassWithoutAForward) {
  TestModel m(Cases().front().config, kSamples);
  const auto done = [](const ParameterRange&, kernels::Vector) {
    return absl::OkStatus();
  };
  const GradientBlocks blocks(m.config, m.model->layout());
  std::vector<float> buffer(blocks.buffer_size());
  EXPECT_THAT(
      m.model->BackwardByBlock(m.parameters.data(),
                               {buffer.data(), blocks.buffer_size()}, done),
      StatusIs(absl::StatusCode::kFailedPrecondition));
  m.Loss(SmallBatch(m.config), /*train=*/true);
  EXPECT_THAT(
      m.model->BackwardByBlock(m.parameters.data(),
                               {buffer.data(), blocks.buffer_size() - 1}, done),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TransformerModelTest, AnErrorOfTheCallerEndsThePass) {
  TestModel m(Cases().front().config, kSamples);
  m.Loss(SmallBatch(m.config), /*train=*/true);
  const GradientBlocks blocks(m.config, m.model->layout());
  std::vector<float> buffer(blocks.buffer_size());
  int calls = 0;
  EXPECT_THAT(m.model->BackwardByBlock(
                  m.parameters.data(), {buffer.data(), blocks.buffer_size()},
                  [&](const ParameterRange&, kernels::Vector) -> absl::Status {
                    if (++calls < 2) return absl::OkStatus();
                    return absl::AbortedError("enough");
                  }),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace comera::trainer
