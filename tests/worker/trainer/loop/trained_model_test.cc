// The model in training: its plan, what is bound to it, and what stays through
// every change of the plan.
#include "worker/trainer/loop/trained_model.h"

#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"

namespace comera::trainer {
namespace {

v1::JobSpec LateSpec() {
  v1::JobSpec spec = TinySpec();
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(1.0);
  late.set_target_ratio(0.5);
  late.set_max_steps(20);
  return WithDefaults(spec);
}

TEST(TrainedModelTest, GivesBackTheStateThatItWasGiven) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  parts.Steps(3);
  ModelState saved;
  ASSERT_OK(parts.model->Download(&saved));
  parts.Steps(2);
  EXPECT_NE(parts.Parameters(), saved.parameters);

  ASSERT_OK(parts.model->Restore(saved, parts.schedule->phases().At(0)));
  ModelState restored;
  ASSERT_OK(parts.model->Download(&restored));
  EXPECT_EQ(restored.ranks, saved.ranks);
  EXPECT_EQ(restored.parameters, saved.parameters);
  EXPECT_EQ(restored.first_moment, saved.first_moment);
  EXPECT_EQ(restored.second_moment, saved.second_moment);
  EXPECT_EQ(restored.projectors, saved.projectors);
}

TEST(TrainedModelTest, RanksOfAnotherModelAreDataLoss) {
  TrainerParts parts;
  parts.Make();
  TrainingState state;
  state.ranks["no such layer"] = {3};
  EXPECT_THAT(parts.model->Load(state, parts.schedule->phases().At(0)),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(parts.model->plan(), nullptr);
}

TEST(TrainedModelTest, CompactingNothingChangesNothing) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  const ModelPlan* const plan = parts.model->plan();
  ASSERT_OK_AND_ASSIGN(const bool changed, parts.model->Compact());
  EXPECT_FALSE(changed);
  EXPECT_EQ(parts.model->plan(), plan);
}

TEST(TrainedModelTest, OnePhaseIsPlannedForAll) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  EXPECT_TRUE(parts.model->PlannedFor(parts.schedule->phases().last()));
  EXPECT_TRUE(parts.model->CompactionDue(5));
  EXPECT_FALSE(parts.model->CompactionDue(6));
}

TEST(TrainedModelTest, SizeControlIsBoundFromTheNextBindOn) {
  TrainerParts parts(LateSpec());
  parts.Make();
  parts.Load();
  EXPECT_EQ(parts.model->size_controller(), nullptr);
  EXPECT_FALSE(parts.model->size_control().has_value());
  parts.progress.stage = v1::LATE;
  parts.model->BeginSizeControl(1234);
  ASSERT_OK(parts.model->Bind(parts.progress));
  ASSERT_NE(parts.model->size_controller(), nullptr);
  EXPECT_EQ(parts.model->size_control()->start_size, 1234);
}

TEST(TrainedModelTest, OtherObjectivesHaveNoSizeControl) {
  v1::JobSpec spec = LateSpec();
  spec.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
  TrainerParts parts(WithDefaults(spec));
  parts.Make();
  parts.Load();
  parts.progress.stage = v1::LATE;
  parts.model->BeginSizeControl(1234);
  ASSERT_OK(parts.model->Bind(parts.progress));
  EXPECT_EQ(parts.model->size_controller(), nullptr);
}

TEST(TrainedModelTest, TheCanonicalFormComputesTheSame) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  parts.Steps(3);
  Batch batch;
  ASSERT_OK(parts.data.ValidationBatch(0, 8, &batch));
  const auto logits = [&] {
    ModelPlan& plan = *parts.model->plan();
    const kernels::StepState state;
    EXPECT_OK(plan.model().Forward(batch, plan.parameters().data,
                                   /*train=*/false, &state));
    auto values = plan.model().ReadLogits();
    EXPECT_OK(values);
    return *values;
  };
  const std::vector<float> before = logits();
  const std::vector<float> parameters = parts.Parameters();
  ASSERT_OK(parts.model->Canonicalise());
  EXPECT_NE(parts.Parameters(), parameters);
  EXPECT_THAT(logits(),
              ::testing::Pointwise(::testing::FloatNear(1e-3f), before));
}

}  // namespace
}  // namespace comera::trainer
