// Tests how the branches of an encoder layer follow from their linear layers.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/encoder/make_attention_branch.h"
#include "worker/trainer/model/encoder/make_ffn_branch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/pruned_branch.h"

namespace comera::trainer {
namespace {

class MakeBranchTest : public ::testing::TestWithParam<const char*> {
 protected:
  bool attention() const { return GetParam() == std::string("output"); }
  // The last linear layer of the branch.
  Factorisation& last() {
    return config_.layers_by_name[std::string("layers.0.") + GetParam()];
  }
  std::unique_ptr<Branch> Make() {
    layout_ = MakeModelLayout(config_);
    Plan plan;
    plan.backend = backend_.get();
    plan.memory = &memory_;
    plan = plan.AtStage(0);
    plan.config = &config_;
    plan.layout = &layout_;
    plan.max_batch = 4;
    plan.max_rows = 4 * config_.length;
    plan.max_sequences = 4;
    return attention() ? MakeAttentionBranch(plan, 0) : MakeFfnBranch(plan, 0);
  }

  ModelConfig config_ = SmallConfig(v1::ModelSpec::MASKED_LM);
  const std::unique_ptr<kernels::Backend> backend_ =
      kernels::CreateCpuBackend({1, 0});
  StepMemory memory_{backend_.get(), /*stages=*/1};
  ModelLayout layout_;
};

TEST_P(MakeBranchTest, FactorsEndInRankSpace) {
  const std::unique_ptr<Branch> branch = Make();
  ASSERT_NE(branch->rank_space(), nullptr);
  // The rank of the bond between input and output modes.
  EXPECT_EQ(branch->rank_space()->last()->rank(),
            last().ranks[last().input_modes.size() - 1]);
}

TEST_P(MakeBranchTest, ADenseLastLayerDoesNot) {
  last() = {};
  EXPECT_EQ(Make()->rank_space(), nullptr);
}

TEST_P(MakeBranchTest, APrunedLastLayerLeavesTheBias) {
  for (int64_t& rank : last().ranks) rank = 0;
  const std::unique_ptr<Branch> branch = Make();
  EXPECT_NE(dynamic_cast<PrunedBranch*>(branch.get()), nullptr);
  EXPECT_EQ(branch->rank_space(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(LastLayers, MakeBranchTest,
                         ::testing::Values("output", "ffn_down"));

}  // namespace
}  // namespace comera::trainer
