// Tests what counts as divergence, and what a return restores.
#include "worker/trainer/loop/divergence_guard.h"

#include <cmath>
#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ln 7, the baseline of the tiny job, is 1.9459.
constexpr double kBelow = 1.5;
constexpr double kAbove = 2.5;

class DivergenceGuardTest : public ::testing::Test {
 protected:
  void Make(v1::TrainingSpec::Divergence what, int64_t warmup_steps = 0) {
    v1::JobSpec spec = TinySpec();
    spec.mutable_training()->set_on_divergence(what);
    spec.mutable_optimizer()->set_warmup_steps(warmup_steps);
    spec.mutable_objective()->mutable_early()->set_steps(40);
    parts_ = std::make_unique<TrainerParts>(spec);
    parts_->Make();
    parts_->Load();
    ASSERT_OK(guard().Begin());
  }

  DivergenceGuard& guard() { return *parts_->guard; }
  TrainingProgress& progress() { return parts_->progress; }

  // Some steps, then a validation with this loss. The smoothed training loss is
  // the same if not given.
  absl::Status Validate(double loss, double training_loss = 0) {
    parts_->Steps(2);
    progress().validation.step = progress().step;
    progress().validation.loss = loss;
    progress().loss = LossAverage();
    progress().loss.Add(training_loss > 0 ? training_loss : loss);
    return guard().Judge();
  }

  std::unique_ptr<TrainerParts> parts_;
};

TEST_F(DivergenceGuardTest, ALossAboveTheBaselineAfterOneBelowHasDiverged) {
  Make(v1::TrainingSpec::FAIL);
  ASSERT_OK(Validate(kAbove));
  ASSERT_OK(Validate(kBelow));
  const absl::Status status = Validate(kAbove);
  EXPECT_EQ(FailureClassOf(status), v1::DIVERGED);
  EXPECT_THAT(status.message(),
              HasSubstr("step 6: the validation loss, 2.5000, is above the "
                        "baseline's, 1.9459"));
  EXPECT_THAT(status.message(), HasSubstr("it was 1.5000 at step 4"));
  // There is nothing to go back to.
  EXPECT_EQ(guard().GoBack(status), status);
}

TEST_F(DivergenceGuardTest, WhatOnlyLooksLikeIt) {
  Make(v1::TrainingSpec::FAIL);
  // The noise of a job that is about to leave the baseline.
  ASSERT_OK(Validate(1.940));
  ASSERT_OK(Validate(1.955));
  // An overfitted model.
  ASSERT_OK(Validate(kAbove, /*training_loss=*/0.3));
  EXPECT_THAT(parts_->events, IsEmpty());
}

TEST_F(DivergenceGuardTest, TheWarmUpIsNotJudged) {
  Make(v1::TrainingSpec::FAIL, /*warmup_steps=*/4);
  ASSERT_OK(Validate(kBelow));
  ASSERT_OK(Validate(kAbove));
  EXPECT_EQ(FailureClassOf(Validate(kAbove)), v1::DIVERGED);
}

TEST_F(DivergenceGuardTest, IgnoreGoesOn) {
  Make(v1::TrainingSpec::IGNORE);
  ASSERT_OK(Validate(kBelow));
  ASSERT_OK(Validate(kAbove));
}

TEST_F(DivergenceGuardTest, AModelThatIsBeingPrunedIsNotJudged) {
  Make(v1::TrainingSpec::FAIL);
  ASSERT_OK(Validate(kBelow));
  parts_->Steps(2);
  progress().loss = LossAverage();
  progress().loss.Add(kAbove);
  progress().stage = v1::LATE;
  progress().target_size = 100;
  // An approach that began two steps before.
  progress().outcomes.resize(1);
  progress().outcomes[0].steps = -38;
  ASSERT_EQ(parts_->schedule->ApproachSteps(progress()), 2);
  parts_->engine->set_last_size(200);
  progress().validation.loss = kAbove;
  EXPECT_OK(guard().Judge());
  // Nor one that has its size, but was never below the baseline there.
  parts_->engine->set_last_size(100);
  EXPECT_OK(guard().Judge());
  progress().validation.loss = kBelow;
  EXPECT_OK(guard().Judge());
  progress().validation.loss = kAbove;
  EXPECT_EQ(FailureClassOf(guard().Judge()), v1::DIVERGED);
}

TEST_F(DivergenceGuardTest, AJobThatLearnsNothingIsWarnedOnce) {
  Make(v1::TrainingSpec::FAIL);
  for (int i = 0; i < 4; ++i) ASSERT_OK(Validate(kAbove));
  EXPECT_THAT(parts_->events, IsEmpty());
  // A quarter of the forty steps.
  for (int i = 0; i < 3; ++i) ASSERT_OK(Validate(kAbove));
  ASSERT_THAT(parts_->events, SizeIs(1));
  const v1::Failure& incident = parts_->events[0].incident();
  EXPECT_EQ(incident.failure_class(), v1::DIVERGED);
  EXPECT_THAT(incident.message(),
              HasSubstr("step 10: nothing was learned so far: the validation "
                        "loss, 2.5000, never was below the baseline's, 1.9459"));
}

TEST_F(DivergenceGuardTest, GoesBackToTheBestState) {
  Make(v1::TrainingSpec::LOWER_RATE);
  ASSERT_OK(Validate(1.2));
  const std::vector<float> best = parts_->Parameters();
  ASSERT_OK(Validate(kBelow));
  ASSERT_NE(parts_->Parameters(), best);
  const absl::Status diverged = Validate(kAbove);
  ASSERT_EQ(FailureClassOf(diverged), v1::DIVERGED);
  parts_->events.clear();
  ASSERT_OK(guard().GoBack(diverged));
  EXPECT_EQ(parts_->Parameters(), best);
  EXPECT_EQ(progress().step, 6);
  EXPECT_EQ(progress().validation.loss, 1.2);
  EXPECT_EQ(progress().stability.rate_factor, 0.5);
  const v1::Failure& incident = parts_->events[0].incident();
  EXPECT_EQ(incident.failure_class(), v1::DIVERGED);
  EXPECT_THAT(incident.message(),
              HasSubstr("; going on with the state of step 2 and learning "
                        "rates times 0.5 (1 of 3 times)"));
  parts_->Steps(1);
  EXPECT_EQ(parts_->engine->last().learning_rate_scale, 0.5);
}

TEST_F(DivergenceGuardTest, GoesBackThreeTimes) {
  Make(v1::TrainingSpec::LOWER_RATE);
  ASSERT_OK(Validate(kBelow));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(guard().GoBack(Validate(kAbove)));
  }
  EXPECT_EQ(progress().stability.rate_factor, 0.125);
  const absl::Status last = Validate(kAbove);
  EXPECT_EQ(FailureClassOf(last), v1::DIVERGED);
  EXPECT_EQ(guard().GoBack(last), last);
}

TEST_F(DivergenceGuardTest, NumbersThatAreNotFiniteLeadBackToo) {
  Make(v1::TrainingSpec::LOWER_RATE);
  const std::vector<float> initial = parts_->Parameters();
  parts_->Steps(3);
  ASSERT_OK(guard().GoBack(NotFinite(3, "training loss", NAN)));
  EXPECT_EQ(parts_->Parameters(), initial);
  const absl::Status other = absl::DataLossError("a.tsv:3: malformed");
  EXPECT_EQ(guard().GoBack(other), other);
}

TEST_F(DivergenceGuardTest, AStateThatDoesNotFitItsRanksIsRefused) {
  Make(v1::TrainingSpec::LOWER_RATE);
  TrainingState state;
  guard().Capture(&state);
  ASSERT_TRUE(state.good.has_value());
  EXPECT_OK(guard().Check(state));
  state.good->stage = v1::LATE;
  EXPECT_THAT(guard().Check(state), StatusIs(absl::StatusCode::kDataLoss));
  state.good->stage = v1::EARLY;
  state.good->parameters.pop_back();
  EXPECT_THAT(guard().Check(state), StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr("last good state")));
}

}  // namespace
}  // namespace comera::trainer
