// Tests that compaction changes the size and not the function.
#include "worker/trainer/model/plan/compaction.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

class CompactionTest : public ::testing::TestWithParam<v1::ModelSpec::Family> {
};

const Parameter& Find(const ParameterLayout& layout, const std::string& name) {
  return layout[layout.Find(name)];
}

TEST_P(CompactionTest, FunctionAndGradientsStay) {
  TestModel old_model(SmallConfig(GetParam()), 3);
  old_model.SpreadRanks();
  const ParameterLayout& layout = old_model.model->layout();
  // Every bond loses its entry 1; one layer loses a whole bond.
  for (const Parameter& p : layout.parameters()) {
    if (p.kind == ParameterKind::kRank) {
      old_model.parameters[p.offset + 1] = 0.01f;
    }
  }
  const Parameter& pruned =
      Find(layout, "encoder.layers.1.attention.value.rank.1");
  std::fill_n(old_model.parameters.begin() + pruned.offset, pruned.size, -0.5f);

  const CompactionPlan plan =
      PlanCompaction(old_model.config, old_model.parameters.data());
  EXPECT_TRUE(plan.changed);
  EXPECT_EQ(plan.config.layers_by_name.at("embedding").ranks,
            (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(plan.config.layers_by_name.at("layers.0.ffn_up").ranks,
            (std::vector<int64_t>{2, 5, 4, 3}));
  EXPECT_EQ(plan.config.layers_by_name.at("layers.1.value").ranks,
            (std::vector<int64_t>{0, 0, 0}));

  TestModel new_model(plan.config, 3);
  ASSERT_EQ(new_model.parameters.size(),
            static_cast<size_t>(plan.new_layout.parameters.size()));
  EXPECT_LT(new_model.parameters.size(), old_model.parameters.size());
  CompactBuffer(plan, old_model.parameters.data(), new_model.parameters.data());

  const Batch batch = RandomBatch(old_model.config, 3, 5, 1, 1);
  const std::vector<float> before = old_model.Logits(batch);
  const std::vector<float> after = new_model.Logits(batch);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(after[i], before[i], 1e-6 * (1 + std::fabs(before[i])));
  }
  EXPECT_NEAR(new_model.Gradient(batch), old_model.Gradient(batch), 1e-5);
  std::vector<float> expected(new_model.gradients.size());
  CompactBuffer(plan, old_model.gradients.data(), expected.data());
  for (const Parameter& p : plan.new_layout.parameters.parameters()) {
    for (int64_t i = 0; i < p.size; ++i) {
      const float e = expected[p.offset + i];
      ASSERT_NEAR(new_model.gradients[p.offset + i], e,
                  1e-5 * (1 + std::fabs(e)))
          << p.name << "[" << i << "]";
    }
  }
  // The counted size was the stored size of what is left, ranks apart.
  const auto counted = [](const TestModel& m) {
    return CountedModelSize(m.model->layout(), m.model->tensorised_layers(),
                            m.parameters.data(), m.config.rank_threshold);
  };
  EXPECT_EQ(counted(old_model), counted(new_model));
  int64_t stored = 0;
  for (const Parameter& p : plan.new_layout.parameters.parameters()) {
    if (p.kind != ParameterKind::kRank) stored += p.size;
  }
  EXPECT_EQ(counted(new_model), stored);
}

TEST_P(CompactionTest, NothingPrunedChangesNothing) {
  TestModel m(SmallConfig(GetParam()), 1);
  const CompactionPlan plan = PlanCompaction(m.config, m.parameters.data());
  EXPECT_FALSE(plan.changed);
  std::vector<float> copy(m.parameters.size());
  CompactBuffer(plan, m.parameters.data(), copy.data());
  EXPECT_EQ(copy, m.parameters);
}

TEST_P(CompactionTest, EverythingPrunedStillRuns) {
  TestModel m(SmallConfig(GetParam()), 2);
  for (const Parameter& p : m.model->layout().parameters()) {
    if (p.kind == ParameterKind::kRank) {
      std::fill_n(m.parameters.begin() + p.offset, p.size, 0.0f);
    }
  }
  const CompactionPlan plan = PlanCompaction(m.config, m.parameters.data());
  TestModel empty(plan.config, 2);
  CompactBuffer(plan, m.parameters.data(), empty.parameters.data());
  EXPECT_EQ(static_cast<int64_t>(empty.parameters.size()),
            FixedSize(plan.new_layout.parameters));
  const Batch batch = RandomBatch(m.config, 2, 4, 0, 1);
  EXPECT_NEAR(empty.Gradient(batch), m.Gradient(batch), 1e-5);
  // Nothing is left to prune.
  EXPECT_FALSE(PlanCompaction(plan.config, empty.parameters.data()).changed);
}

INSTANTIATE_TEST_SUITE_P(Families, CompactionTest,
                         ::testing::Values(v1::ModelSpec::ENCODER_CLASSIFIER,
                                           v1::ModelSpec::MASKED_LM));

}  // namespace
}  // namespace comera::trainer
