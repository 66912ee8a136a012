// The blocks of a transformer's gradients: every trained parameter is in one.
#include "worker/trainer/model/plan/gradient_blocks.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

// Checks that the blocks lie side by side, and that the buffer holds any one.
void ExpectPartition(const ModelConfig& config) {
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  const GradientBlocks blocks(config, layout);
  std::vector<ParameterRange> all = {blocks.embedding()};
  for (int half = 0; half < 2 * config.layers; ++half) {
    all.push_back(blocks.half(half));
  }
  all.push_back(blocks.head());
  int64_t end = blocks.kept().size, largest = 0;
  for (const ParameterRange& block : all) {
    EXPECT_EQ(block.first, end);
    EXPECT_GT(block.size, 0);
    end += block.size;
    largest = std::max(largest, block.size);
  }
  EXPECT_EQ(end, layout.trained_size());
  EXPECT_EQ(blocks.buffer_size(), blocks.kept().size + largest);
  EXPECT_LT(blocks.buffer_size(), layout.trained_size());
}

TEST(GradientBlocksTest, EveryTrainedParameterIsInOne) {
  for (const bool dense : {false, true}) {
    ExpectPartition(SmallConfig(v1::ModelSpec::ENCODER_CLASSIFIER, dense));
    ExpectPartition(SmallConfig(v1::ModelSpec::MASKED_LM, dense));
    ExpectPartition(SmallDecoder(v1::ModelSpec::LLAMA, dense));
    ExpectPartition(SmallDecoder(v1::ModelSpec::GPT2, dense));
  }
}

TEST(GradientBlocksTest, HoldWhatTheirPiecesOfTheBackwardPassComplete) {
  const ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM, true);
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  const GradientBlocks blocks(config, layout);
  const auto holds = [&](const ParameterRange& block, const char* name) {
    return block.Holds(layout[layout.Find(name)]);
  };
  EXPECT_EQ(blocks.kept().size, 0);
  EXPECT_TRUE(holds(blocks.embedding(), "encoder.embedding.word.weight"));
  EXPECT_TRUE(holds(blocks.embedding(), "encoder.embedding.norm.beta"));
  EXPECT_TRUE(holds(blocks.half(0), "encoder.layers.0.attention.query.weight"));
  EXPECT_TRUE(holds(blocks.half(0), "encoder.layers.0.attention.norm.beta"));
  EXPECT_TRUE(holds(blocks.half(3), "encoder.layers.1.ffn.up.weight"));
  EXPECT_TRUE(holds(blocks.half(3), "encoder.layers.1.ffn.norm.gamma"));
  EXPECT_TRUE(holds(blocks.head(), "head.output.weight"));
  EXPECT_FALSE(holds(blocks.half(0), "encoder.layers.0.ffn.up.weight"));
}

TEST(GradientBlocksTest, TheNormOfADecodersHalfIsInItsBlock) {
  const ModelConfig config = SmallDecoder(v1::ModelSpec::GPT2, true);
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  const GradientBlocks blocks(config, layout);
  const auto holds = [&](const ParameterRange& block, const char* name) {
    return block.Holds(layout[layout.Find(name)]);
  };
  EXPECT_TRUE(holds(blocks.kept(), "decoder.embedding.word.weight"));
  EXPECT_TRUE(holds(blocks.embedding(), "decoder.embedding.position"));
  EXPECT_TRUE(holds(blocks.half(0), "decoder.layers.0.attention.norm.gamma"));
  EXPECT_TRUE(holds(blocks.half(0), "decoder.layers.0.attention.output.bias"));
  EXPECT_TRUE(holds(blocks.half(3), "decoder.layers.1.ffn.norm.beta"));
  EXPECT_TRUE(holds(blocks.half(3), "decoder.layers.1.ffn.down.weight"));
  EXPECT_TRUE(holds(blocks.head(), "head.norm.beta"));
}

TEST(GradientBlocksTest, ATiedTableIsKept) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM, true);
  config.tie_output = true;
  config.layers_by_name.erase("output");
  ExpectPartition(config);
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  const GradientBlocks blocks(config, layout);
  EXPECT_EQ(blocks.kept().size, config.vocabulary * config.hidden);
  EXPECT_TRUE(blocks.kept().Holds(
      layout[layout.Find("encoder.embedding.word.weight")]));
}

TEST(GradientBlocksTest, BucketsAreAllGradientsFromTheLastToTheFirst) {
  ModelConfig tied = SmallConfig(v1::ModelSpec::MASKED_LM, true);
  tied.tie_output = true;
  tied.layers_by_name.erase("output");
  for (const ModelConfig& config :
       {SmallConfig(v1::ModelSpec::MASKED_LM, false), tied,
        SmallDecoder(v1::ModelSpec::LLAMA, false)}) {
    const ParameterLayout layout = MakeModelLayout(config).parameters;
    const GradientBlocks blocks(config, layout);
    const int64_t floats = blocks.half(3).size + blocks.head().size + 1;
    const std::vector<ParameterRange> buckets = blocks.Buckets(floats);
    ASSERT_GT(buckets.size(), 1u);
    int64_t end = layout.trained_size();
    for (const ParameterRange& bucket : buckets) {
      EXPECT_EQ(bucket.first + bucket.size, end);
      if (bucket.first > 0) {
        EXPECT_GE(bucket.size, floats);
      }
      end = bucket.first;
    }
    EXPECT_EQ(end, 0);
    // The smallest that reaches that size.
    EXPECT_EQ(buckets[0].first, blocks.half(2).first);
    const std::vector<ParameterRange> one =
        blocks.Buckets(layout.trained_size());
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0].size, layout.trained_size());
  }
}

}  // namespace
}  // namespace comera::trainer
