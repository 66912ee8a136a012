// The late stage: which model is nearest to a target, when an approach ends,
// and what the next one begins with.
#include "worker/trainer/loop/late_stage.h"

#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

using ::testing::SizeIs;

constexpr int64_t kMaxSteps = 6;

// Targets of half the size and a loss of 1.
v1::JobSpec LateSpec(int targets) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_objective()->mutable_early()->set_steps(2);
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  for (int i = 0; i < targets; ++i) {
    v1::Target& target = *late.add_targets();
    target.set_target_loss(1.0);
    target.set_target_ratio(0.5);
  }
  late.set_max_steps(kMaxSteps);
  return WithDefaults(spec);
}

// One such target; validation looks at 8 of the 24 samples.
v1::JobSpec SampledSpec(double loss = 1.0) {
  v1::JobSpec spec = LateSpec(1);
  spec.mutable_objective()->mutable_late()->mutable_targets(0)->set_target_loss(
      loss);
  spec.mutable_training()->set_validation_samples(8);
  return spec;
}

class LateStageTest : public ::testing::Test {
 protected:
  // Enters the late stage after the two early steps.
  void Enter(int targets) { Enter(LateSpec(targets)); }
  void Enter(const v1::JobSpec& spec) {
    parts_ = std::make_unique<TrainerParts>(spec);
    parts_->options.export_target = [this](int target, const ModelConfig&,
                                           const std::vector<float>&,
                                           const v1::TrainingResult& result) {
      EXPECT_EQ(target, static_cast<int>(exported_.size()));
      exported_.push_back(result);
      return absl::OkStatus();
    };
    parts_->Make();
    parts_->Load();
    parts_->Steps(2);
    ASSERT_OK(stage().Enter());
    Validated(/*loss=*/2.0);
    ASSERT_OK(stage().Judge(progress().late_size));
    ASSERT_OK(stage().KeepBranchPoint());
  }

  LateStage& stage() { return *parts_->late_stage; }
  TrainingProgress& progress() { return parts_->progress; }

  void Validated(double loss) {
    progress().validation.loss = loss;
    progress().validation.step = progress().step;
  }

  // A validation with this loss of a model of this size.
  void Judge(double loss, int64_t size) {
    Validated(loss);
    ASSERT_OK(stage().Judge(size));
  }

  bool EndTargets() {
    auto ended = stage().EndTargetsIfDue();
    EXPECT_OK(ended);
    return *ended;
  }

  std::unique_ptr<TrainerParts> parts_;
  std::vector<v1::TrainingResult> exported_;
};

TEST_F(LateStageTest, EnteringResolvesTheTargetSize) {
  Enter(1);
  EXPECT_EQ(progress().stage, v1::LATE);
  EXPECT_GT(progress().late_size, 0);
  EXPECT_EQ(progress().target_size, progress().late_size / 2);
  EXPECT_FALSE(progress().targets_met);
  ASSERT_NE(parts_->model->size_controller(), nullptr);
  EXPECT_EQ(parts_->model->size_control()->start_size, progress().late_size);
}

// The file that is exported is never larger than what was asked for, header
// included.
TEST_F(LateStageTest, ATargetInBytesIsThatOfTheFile) {
  v1::JobSpec spec = LateSpec(1);
  v1::Target& target =
      *spec.mutable_objective()->mutable_late()->mutable_targets(0);
  target.set_target_bytes(20'000);
  Enter(spec);
  const int64_t header = ExportedHeaderBytes(parts_->model->plan()->config());
  EXPECT_GT(header, 100);
  EXPECT_EQ(progress().target_size, (20'000 - header) / 4);
}

TEST_F(LateStageTest, AModelThatIsSmallEnoughIsNearerThanAnyThatIsNot) {
  Enter(1);
  const int64_t target = progress().target_size;
  Judge(/*loss=*/0.5, target + 1);
  EXPECT_EQ(stage().nearest()->size, target + 1);
  Judge(/*loss=*/9.0, target);
  EXPECT_EQ(stage().nearest()->size, target);
  Judge(/*loss=*/0.5, target + 1);
  EXPECT_EQ(stage().nearest()->size, target);
  Judge(/*loss=*/8.0, target);
  EXPECT_EQ(stage().nearest()->validation.loss, 8.0);
  Judge(/*loss=*/8.5, target);
  EXPECT_EQ(stage().nearest()->validation.loss, 8.0);
  EXPECT_FALSE(progress().targets_met);
  EXPECT_FALSE(EndTargets());
}

TEST_F(LateStageTest, AMetTargetEndsItsApproach) {
  Enter(1);
  parts_->Steps(1);
  Judge(/*loss=*/1.0, progress().target_size);
  EXPECT_TRUE(progress().targets_met);
  EXPECT_TRUE(EndTargets());
  ASSERT_THAT(progress().outcomes, SizeIs(1));
  EXPECT_TRUE(progress().outcomes[0].met);
  EXPECT_EQ(progress().outcomes[0].steps, 1);
  EXPECT_EQ(progress().outcomes[0].size, progress().target_size);
  EXPECT_TRUE(parts_->schedule->Finished(progress()));
  // A single target's model is the job's.
  EXPECT_THAT(exported_, SizeIs(0));
}

TEST_F(LateStageTest, AchievementWeighsTheSizeAgainstTheLoss) {
  v1::JobSpec spec = LateSpec(1);
  spec.mutable_objective()->mutable_late()->set_mode(
      v1::LateStage::ACHIEVEMENT);
  Enter(spec);
  const int64_t target = progress().target_size;
  Judge(/*loss=*/1.1, target + 1);
  EXPECT_EQ(stage().nearest()->size, target + 1);
  Judge(/*loss=*/1.2, target);
  EXPECT_EQ(stage().nearest()->size, target + 1);
  // A model that meets both is nearest all the same.
  Judge(/*loss=*/1.0, target);
  EXPECT_EQ(stage().nearest()->size, target);
}

TEST_F(LateStageTest, AMetTargetMayBeContinuedToTheEnd) {
  v1::JobSpec spec = LateSpec(1);
  spec.mutable_objective()->mutable_late()->set_continue_after_met(true);
  Enter(spec);
  parts_->Steps(1);
  Judge(/*loss=*/1.0, progress().target_size);
  EXPECT_TRUE(progress().targets_met);
  EXPECT_FALSE(EndTargets());
  Judge(/*loss=*/0.7, progress().target_size);
  // Neither a worse model nor one that is too large takes its place.
  Judge(/*loss=*/1.4, progress().target_size);
  Judge(/*loss=*/0.1, progress().target_size + 1);
  EXPECT_TRUE(progress().targets_met);
  EXPECT_EQ(stage().nearest()->validation.loss, 0.7);
  parts_->Steps(kMaxSteps - 1);
  EXPECT_TRUE(EndTargets());
  ASSERT_THAT(progress().outcomes, SizeIs(1));
  EXPECT_TRUE(progress().outcomes[0].met);
  EXPECT_EQ(progress().outcomes[0].steps, kMaxSteps);
  EXPECT_EQ(progress().outcomes[0].validation.loss, 0.7);
}

TEST_F(LateStageTest, TheWholeSetDecidesWhatASampleSuggests) {
  Enter(SampledSpec());
  const int64_t target = progress().target_size;
  // The sample is said to have a loss of 0.5, the model has nothing like it.
  Judge(/*loss=*/0.5, target);
  EXPECT_FALSE(progress().targets_met);
  EXPECT_TRUE(progress().validation.refuted);
  EXPECT_EQ(progress().validation.loss, 0.5);
  EXPECT_EQ(stage().nearest()->validation.loss, 0.5);
  Judge(/*loss=*/1.5, target);
  EXPECT_FALSE(progress().validation.refuted);
  EXPECT_FALSE(EndTargets());
}

TEST_F(LateStageTest, AMetTargetHasTheFiguresOfTheWholeSet) {
  Enter(SampledSpec(/*loss=*/100));
  Judge(/*loss=*/0.5, progress().target_size);
  EXPECT_TRUE(progress().targets_met);
  EXPECT_GT(stage().nearest()->validation.loss, 1);
  // Two labels a sample.
  EXPECT_EQ(stage().nearest()->validation.labels, 48);
  EXPECT_TRUE(EndTargets());
  EXPECT_GT(progress().outcomes[0].validation.loss, 1);
}

TEST_F(LateStageTest, AMissIsMeasuredOnTheWholeSet) {
  Enter(SampledSpec());
  Judge(/*loss=*/0.5, progress().target_size);
  parts_->Steps(kMaxSteps);
  EXPECT_TRUE(EndTargets());
  const TargetOutcome& outcome = progress().outcomes[0];
  EXPECT_FALSE(outcome.met);
  EXPECT_EQ(outcome.validation.labels, 48);
  EXPECT_GT(outcome.validation.loss, 1);
  EXPECT_EQ(outcome.validation.step, 2);
}

// The sample was too bad: the last look at the nearest model meets the target.
TEST_F(LateStageTest, TheLastLookMayMeetTheTarget) {
  Enter(SampledSpec(/*loss=*/100));
  Judge(/*loss=*/200, progress().target_size);
  EXPECT_FALSE(progress().targets_met);
  parts_->Steps(kMaxSteps);
  EXPECT_TRUE(EndTargets());
  EXPECT_TRUE(progress().outcomes[0].met);
}

TEST_F(LateStageTest, EveryApproachBeginsAtTheBranchPoint) {
  Enter(2);
  const std::vector<float> branch = parts_->Parameters();
  const LossAverage loss = progress().loss;
  parts_->Steps(kMaxSteps);
  EXPECT_NE(parts_->Parameters(), branch);
  EXPECT_TRUE(EndTargets());
  ASSERT_THAT(progress().outcomes, SizeIs(1));
  EXPECT_FALSE(progress().outcomes[0].met);
  ASSERT_THAT(exported_, SizeIs(1));
  EXPECT_EQ(exported_[0].outcome(), v1::TARGET_MISSED);

  EXPECT_EQ(parts_->Parameters(), branch);
  EXPECT_EQ(progress().loss.value(), loss.value());
  EXPECT_EQ(progress().validation.loss, 2.0);
  EXPECT_EQ(progress().validation.step, progress().step);
  EXPECT_EQ(parts_->engine->last().objective.size, progress().late_size);
  EXPECT_EQ(stage().nearest()->size, progress().late_size);
  // No other target is to come that would need it.
  TrainingState state;
  stage().Capture(&state);
  EXPECT_FALSE(state.branch.has_value());
  EXPECT_FALSE(EndTargets());

  parts_->Steps(kMaxSteps);
  EXPECT_TRUE(EndTargets());
  EXPECT_THAT(exported_, SizeIs(2));
  EXPECT_TRUE(parts_->schedule->Finished(progress()));
}

class LateStageStateTest : public LateStageTest {
 protected:
  TrainingState Captured() {
    auto state = parts_->keeper->Capture();
    EXPECT_OK(state);
    return *state;
  }
};

TEST_F(LateStageStateTest, AcceptsItsOwnState) {
  Enter(2);
  EXPECT_OK(stage().Check(Captured()));
}

TEST_F(LateStageStateTest, RefusesStatesThatAreNotOfTheJob) {
  Enter(2);
  std::vector<TrainingState> states(6, Captured());
  states[0].nearest->parameters.pop_back();
  states[1].branch->second_moment.pop_back();
  states[2].branch.reset();
  states[3].control.reset();
  states[4].progress.outcomes.resize(2);
  states[5].progress.stage = v1::EARLY;
  for (const TrainingState& state : states) {
    EXPECT_THAT(stage().Check(state), StatusIs(absl::StatusCode::kDataLoss));
  }
}

}  // namespace
}  // namespace comera::trainer
