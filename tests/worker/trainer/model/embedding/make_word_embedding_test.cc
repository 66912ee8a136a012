// Tests which class an embedding of each form gets.
#include "worker/trainer/model/embedding/make_word_embedding.h"

#include <memory>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/dense_embedding.h"
#include "worker/trainer/model/embedding/expanded_embedding.h"
#include "worker/trainer/model/embedding/expanded_table.h"
#include "worker/trainer/model/embedding/ttm_embedding.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {
namespace {

Plan PlanOf(const ModelConfig& config, const ModelLayout& layout,
            kernels::Backend* backend, StepMemory* memory) {
  Plan plan;
  plan.backend = backend;
  plan.memory = memory;
  plan.config = &config;
  plan.layout = &layout;
  return plan.AtStage(0);
}

TEST(MakeWordEmbeddingTest, FollowsTheFormInTheConfiguration) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  for (const bool dense : {false, true}) {
    const ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM, dense);
    const ModelLayout layout = MakeModelLayout(config);
    StepMemory memory(backend.get(), /*stages=*/1);
    const Plan plan = PlanOf(config, layout, backend.get(), &memory);
    const auto table = MakeWordEmbedding(plan, "embedding", /*max_ids=*/4);
    EXPECT_EQ(dynamic_cast<DenseEmbedding*>(table.get()) != nullptr, dense);
    EXPECT_EQ(dynamic_cast<TtmEmbedding*>(table.get()) != nullptr, !dense);
  }
}

TEST(MakeWordEmbeddingTest, TiedTablesAreExpandedWhereTheyAreSmall) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  for (const bool expanded : {false, true}) {
    const ModelConfig config = LargeVocabularyConfig(expanded);
    const ModelLayout layout = MakeModelLayout(config);
    StepMemory memory(backend.get(), /*stages=*/1);
    Plan plan = PlanOf(config, layout, backend.get(), &memory);
    const auto expansion = ExpandedTable::Create(plan);
    EXPECT_EQ(expansion != nullptr, expanded);
    plan.table = expansion.get();
    const auto table = MakeWordEmbedding(plan, "embedding", /*max_ids=*/4);
    EXPECT_EQ(dynamic_cast<ExpandedEmbedding*>(table.get()) != nullptr,
              expanded);
  }
}

}  // namespace
}  // namespace comera::trainer
