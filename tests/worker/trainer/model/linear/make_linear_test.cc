// Tests which class a layer of each form gets.
#include "worker/trainer/model/linear/make_linear.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/adapter_linear.h"
#include "worker/trainer/model/linear/cola_linear.h"
#include "worker/trainer/model/linear/contracted_linear.h"
#include "worker/trainer/model/linear/dense_linear.h"
#include "worker/trainer/model/linear/pruned_linear.h"
#include "worker/trainer/model/linear/tt_linear.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {
namespace {

constexpr char kKey[] = "layers.0.query";

// The small model's first query projection, made in the form that the
// configuration names.
class MakeLinearTest : public ::testing::Test {
 protected:
  Linear& Make() {
    layout_ = MakeModelLayout(config_);
    Plan plan;
    plan.backend = backend_.get();
    plan.memory = &memory_;
    plan = plan.AtStage(0);
    plan.config = &config_;
    plan.layout = &layout_;
    linear_ = MakeLinear(plan, kKey, /*max_rows=*/8, "linear");
    return *linear_;
  }
  template <typename Form>
  bool Makes() {
    return dynamic_cast<Form*>(&Make()) != nullptr;
  }
  Factorisation& form() { return config_.layers_by_name[kKey]; }

  ModelConfig config_ = SmallConfig(v1::ModelSpec::MASKED_LM);
  const std::unique_ptr<kernels::Backend> backend_ =
      kernels::CreateCpuBackend({1, 0});
  StepMemory memory_{backend_.get(), /*stages=*/1};
  ModelLayout layout_;
  std::unique_ptr<Linear> linear_;
};

TEST_F(MakeLinearTest, OnlyTheTwoFactorPathHasARankSpace) {
  EXPECT_TRUE(Makes<TtLinear>());
  EXPECT_NE(linear_->rank_space(), nullptr);
  config_.forced_path = kernels::TtPath::kDense;
  EXPECT_TRUE(Makes<ContractedLinear>());
  EXPECT_EQ(linear_->rank_space(), nullptr);
}

TEST_F(MakeLinearTest, NoContractionPassesTheSilu) {
  form().silu = true;
  config_.forced_path = kernels::TtPath::kDense;
  EXPECT_TRUE(Makes<TtLinear>());
}

TEST_F(MakeLinearTest, RanksOfZeroLeaveTheBias) {
  for (int64_t& rank : form().ranks) rank = 0;
  EXPECT_TRUE(Makes<PrunedLinear>());
  EXPECT_EQ(linear_->rank_space(), nullptr);
}

TEST_F(MakeLinearTest, OtherMethodsHaveTheirForms) {
  form() = {};
  EXPECT_TRUE(Makes<DenseLinear>());
  form().low_rank = {LowRank::Kind::kGalore, 2, 1, 1};
  EXPECT_TRUE(Makes<DenseLinear>());
  form().low_rank = {LowRank::Kind::kLora, 2, 1, 1};
  EXPECT_TRUE(Makes<AdapterLinear>());
  form().low_rank = {LowRank::Kind::kLte, 2, 2, 1};
  EXPECT_TRUE(Makes<AdapterLinear>());
  form().low_rank = {LowRank::Kind::kCola, 2, 1, 1};
  EXPECT_TRUE(Makes<ColaLinear>());
}

}  // namespace
}  // namespace comera::trainer
