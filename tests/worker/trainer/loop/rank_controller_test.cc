// Compaction as the trainer sees it: the function and the optimiser's state
// stay, the buffers shrink.
#include "worker/trainer/loop/rank_controller.h"

#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

class RankControllerTest : public ::testing::Test {
 protected:
  RankControllerTest()
      : backend_(kernels::CreateCpuBackend({/*threads=*/1})),
        controller_(5, CreateModel, backend_.get()) {}

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                         MakeModelConfig(TinySpec(), data_.vocabulary_size()));
    ASSERT_OK_AND_ASSIGN(
        plan_, ModelPlan::Create(config, 8, CreateModel, backend_.get()));
    const int64_t n = plan_->size();
    std::vector<float> parameters(n), first(n), second(n);
    plan_->model().Initialise(3, parameters.data());
    for (int64_t i = 0; i < n; ++i) {
      first[i] = 0.001f * i;
      second[i] = 1e-6f * i;
    }
    ASSERT_OK(plan_->Upload(parameters, plan_->parameters()));
    ASSERT_OK(plan_->Upload(first, plan_->first_moment()));
    ASSERT_OK(plan_->Upload(second, plan_->second_moment()));
    ASSERT_OK(data_.ValidationBatch(0, 8, &batch_));
  }

  // Sets an entry of a bond of the layer to `value`.
  void SetEntry(const std::string& name, int bond, int64_t entry, float value) {
    for (const TensorisedLayer& layer : plan_->model().tensorised_layers()) {
      if (layer.name != name) continue;
      const Parameter& p = plan_->model().layout()[layer.bonds[bond]];
      ASSERT_LT(entry, p.size);
      ASSERT_OK(backend_->CopyToDevice(
          plan_->parameters().data + p.offset + entry, &value, sizeof(value)));
      return;
    }
    FAIL() << "no layer " << name;
  }

  std::vector<float> Logits() {
    kernels::StepState state;
    EXPECT_OK(plan_->model().Forward(batch_, plan_->parameters().data,
                                     /*train=*/false, &state));
    auto logits = plan_->model().ReadLogits();
    EXPECT_OK(logits);
    return *logits;
  }

  FakeTrainingData data_;
  std::unique_ptr<kernels::Backend> backend_;
  RankController controller_;
  std::unique_ptr<ModelPlan> plan_;
  Batch batch_;
};

TEST_F(RankControllerTest, DueEverySoManySteps) {
  EXPECT_FALSE(controller_.Due(4));
  EXPECT_TRUE(controller_.Due(5));
  EXPECT_FALSE(controller_.Due(6));
  EXPECT_TRUE(controller_.Due(10));
  EXPECT_FALSE(RankController(0, CreateModel, backend_.get()).Due(5));
}

TEST_F(RankControllerTest, NothingDiedNothingRebuilt) {
  const ModelPlan* before = plan_.get();
  ASSERT_OK_AND_ASSIGN(const bool changed, controller_.Compact(&plan_));
  EXPECT_FALSE(changed);
  EXPECT_EQ(plan_.get(), before);
}

TEST_F(RankControllerTest, TheFunctionStays) {
  SetEntry("encoder.embedding.word", 0, 2, 0.01f);  // at the threshold
  SetEntry("encoder.layers.0.attention.query", 0, 0, -0.3f);
  SetEntry("encoder.layers.0.attention.query", 1, 3, 0.0f);
  const std::vector<float> before = Logits();
  const int64_t size = plan_->size();
  ASSERT_OK_AND_ASSIGN(const bool changed, controller_.Compact(&plan_));
  EXPECT_TRUE(changed);
  EXPECT_LT(plan_->size(), size);
  const std::vector<float> after = Logits();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    ASSERT_NEAR(after[i], before[i], 1e-6) << i;
  }
  ASSERT_OK_AND_ASSIGN(const bool again, controller_.Compact(&plan_));
  EXPECT_FALSE(again);
}

TEST_F(RankControllerTest, ALayerWhoseBondDiesIsGone) {
  for (int64_t i = 0; i < 4; ++i) {
    SetEntry("encoder.layers.0.attention.value", 1, i, 0.001f);
  }
  const std::vector<float> before = Logits();
  ASSERT_OK_AND_ASSIGN(const bool changed, controller_.Compact(&plan_));
  EXPECT_TRUE(changed);
  const std::vector<float> after = Logits();
  for (size_t i = 0; i < after.size(); ++i) {
    ASSERT_NEAR(after[i], before[i], 1e-6) << i;
  }
  for (const TensorisedLayer& layer : plan_->model().tensorised_layers()) {
    if (layer.name != "encoder.layers.0.attention.value") continue;
    EXPECT_THAT(layer.ranks, ::testing::ElementsAre(1, 0, 0, 0, 1));
  }
}

TEST_F(RankControllerTest, MomentsOfSurvivorsStayExact) {
  // Bond 0 of the embedding: (1, m n, 6) loses right entry 1.
  SetEntry("encoder.embedding.word", 0, 1, 0);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> old_first,
                       plan_->Download(plan_->first_moment()));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> old_second,
                       plan_->Download(plan_->second_moment()));
  const ParameterLayout old_layout = plan_->model().layout();
  ASSERT_OK_AND_ASSIGN(const bool changed, controller_.Compact(&plan_));
  ASSERT_TRUE(changed);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> first,
                       plan_->Download(plan_->first_moment()));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> second,
                       plan_->Download(plan_->second_moment()));
  const ParameterLayout& layout = plan_->model().layout();
  ASSERT_EQ(layout.parameters().size(), old_layout.parameters().size());
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& now = layout[i];
    const Parameter& was = old_layout[i];
    if (now.size == was.size) {
      for (int64_t k = 0; k < now.size; ++k) {
        ASSERT_EQ(first[now.offset + k], old_first[was.offset + k]) << now.name;
        ASSERT_EQ(second[now.offset + k], old_second[was.offset + k])
            << now.name;
      }
      continue;
    }
    // What is left is the old pairs in order, without the lost ones.
    ASSERT_LT(now.size, was.size) << now.name;
    int64_t next = 0;
    for (int64_t k = 0; k < was.size && next < now.size; ++k) {
      if (first[now.offset + next] == old_first[was.offset + k] &&
          second[now.offset + next] == old_second[was.offset + k]) {
        ++next;
      }
    }
    EXPECT_EQ(next, now.size) << now.name;
  }
}

}  // namespace
}  // namespace comera::trainer
