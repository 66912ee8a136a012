// Tests which class an embedding of each form gets.
#include "worker/trainer/model/embedding/make_word_embedding.h"

#include <memory>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/dense_embedding.h"
#include "worker/trainer/model/embedding/ttm_embedding.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {
namespace {

TEST(MakeWordEmbeddingTest, FollowsTheFormInTheConfiguration) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  for (const bool dense : {false, true}) {
    const ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM, dense);
    const ModelLayout layout = MakeModelLayout(config);
    StepMemory memory(backend.get(), /*stages=*/1);
    Plan plan;
    plan.backend = backend.get();
    plan.memory = &memory;
    plan = plan.AtStage(0);
    plan.config = &config;
    plan.layout = &layout;
    const auto table = MakeWordEmbedding(plan, "embedding", /*max_ids=*/4);
    EXPECT_EQ(dynamic_cast<DenseEmbedding*>(table.get()) != nullptr, dense);
    EXPECT_EQ(dynamic_cast<TtmEmbedding*>(table.get()) != nullptr, !dense);
  }
}

}  // namespace
}  // namespace comera::trainer
