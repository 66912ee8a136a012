// Tests searches: rounds, pauses, stops, the choice, and restarts in between.
#include "server/sweep/sweep_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/sweep/sweep_plan.h"
#include "tests/server/sweep/search_cluster.h"
#include "tests/server/test_spec.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::SweepSpec Search(double loss, int64_t parameters) {
  v1::SweepSpec spec;
  v1::JobSpec& job = *spec.mutable_job();
  job = TestSpec(1);
  job.mutable_compression()->set_method(v1::CompressionSpec::AUTO);
  job.mutable_objective()->Clear();
  v1::LateStage& late = *job.mutable_objective()->mutable_late();
  if (loss > 0) late.set_target_loss(loss);
  if (parameters > 0) late.set_target_parameters(parameters);
  job.mutable_budget()->set_steps(16000);
  return spec;
}

// A search over dense models of these widths.
v1::SweepSpec DenseSearch(const std::vector<int>& widths, double loss,
                          int64_t parameters = 0) {
  v1::SweepSpec spec = Search(loss, parameters);
  for (int width : widths) {
    v1::SweepPoint& point = *spec.add_list();
    point.set_method(v1::CompressionSpec::DENSE);
    point.set_label(absl::StrCat("method=dense width=", width));
    v1::FieldValue& field = *point.add_fields();
    field.set_path("model.hidden");
    field.set_value(absl::StrCat(width));
  }
  return spec;
}

// A search over one tensor-train model that is pruned to these shares.
v1::SweepSpec ShrinkingSearch(double loss, const std::vector<double>& ratios) {
  v1::SweepSpec spec = Search(loss, 0);
  for (double ratio : ratios) {
    v1::SweepPoint& point = *spec.add_list();
    point.set_method(v1::CompressionSpec::COMERA);
    point.set_label(absl::StrCat("method=comera shrunk_to=", ratio));
    point.mutable_target()->set_target_ratio(ratio);
  }
  return spec;
}

// Losses fall towards a floor that wider models have lower.
class SweepSearchTest : public SearchCluster {
 protected:
  static constexpr int64_t kStride = 50;

  int64_t SizeAt(const v1::JobSpec& spec, int64_t /*step*/) override {
    return 1000 * spec.model().hidden();
  }
  double LossAt(const v1::JobSpec& spec, int64_t step) override {
    const double floor = 4 - static_cast<double>(spec.model().hidden()) / 40;
    return floor + 2 * std::exp(-static_cast<double>(step) / 400);
  }
};

TEST_F(SweepSearchTest, TheSmallestThatMeetsTheLossIsChosenWithinTheBudget) {
  // Floors: 3.6, 3.2, 2.8, 2.4 and so on; 48 is the first below 2.9.
  Create(DenseSearch({16, 24, 32, 40, 48, 56, 64, 72}, 2.9));
  ASSERT_EQ(sweep().runs_size(), 8);
  EXPECT_EQ(sweep().search().round(), 1);
  // Two of each of the three groups, and one in which all compete.
  EXPECT_EQ(sweep().search().rounds(), 7);
  Play();
  ASSERT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MET);
  ASSERT_TRUE(sweep().search().has_chosen_run());
  EXPECT_EQ(sweep().runs(sweep().search().chosen_run()).label(),
            "method=dense width=48");
  EXPECT_EQ(sweep().reason(), sweep().search().explanation());
  EXPECT_THAT(sweep().reason(),
              HasSubstr("dense with width 48 reached loss 2.9"));
  // A pause comes after the event in which the share is spent.
  EXPECT_LE(trained_, 16000 + 14 * kStride);
  EXPECT_GE(sweep().counts().stopped(), 2);
}

TEST_F(SweepSearchTest, EachRoundPausesAllStopsHalfAndDoublesTheRest) {
  // Where only a size is asked for, all compete from the beginning.
  Create(DenseSearch({16, 24, 32, 40, 48, 56, 64, 72}, 0, 99000));
  Play([&] { return sweep().search().round() == 2; });
  // A share is 16000 / 16 steps.
  int stopped = 0;
  for (const v1::SweepRun& run : sweep().runs()) {
    EXPECT_EQ(run.progress().step(), 1000) << run.label();
    if (run.state() != v1::SWEEP_RUN_STOPPED) continue;
    ++stopped;
    EXPECT_THAT(run.reason(), HasSubstr("than the 4 that go on"));
  }
  EXPECT_EQ(stopped, 4);
  Play([&] { return sweep().search().round() == 3; });
  EXPECT_EQ(sweep().counts().stopped(), 6);
  Play();
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().search().chosen_run(), 7);
}

TEST_F(SweepSearchTest, IfNoneMeetsTheLossTheNearestIsKept) {
  Create(DenseSearch({16, 24, 32, 40, 48, 56, 64, 72}, 1.0));
  Play();
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MISSED);
  EXPECT_THAT(sweep().reason(), HasSubstr("misses the target"));
  EXPECT_EQ(sweep().search().chosen_run(), 7);
}

TEST_F(SweepSearchTest, GroupsBeginOneAfterAnotherTheSmallestFirst) {
  Create(DenseSearch({72, 16, 64, 24, 56, 32, 48, 40}, 1.0));
  // One slot: one job at a time, the smallest first.
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_EQ(asked_[0].request.spec().model().hidden(), 16);
  Play([&] { return sweep().search().round() == 2; });
  std::vector<int64_t> steps(80);
  const auto look = [&] {
    for (const v1::SweepRun& run : sweep().runs()) {
      steps[std::stoi(run.label().substr(19))] = run.progress().step();
    }
  };
  look();
  for (int width : {16, 24, 32}) EXPECT_EQ(steps[width], 1000) << width;
  for (int width : {40, 48, 56, 64, 72}) EXPECT_EQ(steps[width], 0) << width;
  EXPECT_EQ(sweep().counts().stopped(), 1);
  // The first group has had two shares when the second begins.
  Play([&] { return sweep().search().round() == 3; });
  look();
  EXPECT_EQ(steps[16] + steps[24] + steps[32], 5000);
  EXPECT_EQ(steps[40], 0);
  Play([&] { return sweep().search().round() == 4; });
  look();
  for (int width : {40, 48, 56}) EXPECT_EQ(steps[width], 1000) << width;
  EXPECT_EQ(steps[64], 0);
}

TEST_F(SweepSearchTest, AGroupGoesOnWhileItPromisesTheLossAndSparesTheLarger) {
  // Width 24 meets it late, at a loss of 3.41 (its floor is 3.4).
  Create(DenseSearch({16, 24, 32, 40, 48, 56, 64, 72}, 3.42));
  Play();
  EXPECT_EQ(sweep().runs(sweep().search().chosen_run()).label(),
            "method=dense width=24");
  for (int run = 3; run < 8; ++run) {
    // Their plans do not tell these made-up sizes, but their first figures do.
    EXPECT_LE(sweep().runs(run).progress().step(), kStride) << run;
    EXPECT_EQ(sweep().runs(run).state(), v1::SWEEP_RUN_STOPPED) << run;
  }
  EXPECT_LE(trained_, 6000);
}

TEST_F(SweepSearchTest, OfASizeAloneTheLowestLossWithinItIsChosen) {
  Create(DenseSearch({16, 24, 32, 40, 48, 56}, 0, 44000));
  Play();
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MET);
  EXPECT_EQ(sweep().runs(sweep().search().chosen_run()).label(),
            "method=dense width=40");
  // What is larger than its target went at its first validation.
  EXPECT_EQ(sweep().runs(5).progress().step(), kStride);
  EXPECT_THAT(sweep().runs(5).reason(),
              HasSubstr("56,000 parameters, more than the target of 44,000"));
}

// The model with dense attention is the worst for a third of its training.
class LateLearnerTest : public SweepSearchTest {
 protected:
  double LossAt(const v1::JobSpec& spec, int64_t step) override {
    if (!spec.compression().attention().dense()) {
      return SweepSearchTest::LossAt(spec, step);
    }
    return step < 1500 ? 5.9 : 2;
  }
};

TEST_F(LateLearnerTest, DenseAttentionHasAPlaceInSearchesForASize) {
  v1::SweepSpec spec = Search(0, 70000);
  for (const int width : {16, 24, 32, 40, 48, 56}) {
    v1::SweepPoint& point = *spec.add_list();
    point.set_method(v1::CompressionSpec::COMERA);
    point.set_label(absl::StrCat("method=comera width=", width));
    v1::FieldValue& field = *point.add_fields();
    field.set_path("model.hidden");
    field.set_value(absl::StrCat(width));
  }
  v1::FieldValue& dense = *spec.mutable_list(2)->add_fields();
  dense.set_path("compression.attention.dense");
  dense.set_value("true");
  Create(spec);
  Play();
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MET);
  EXPECT_EQ(sweep().search().chosen_run(), 2);
}

TEST_F(SweepSearchTest, ARestartInEveryRoundChangesNothing) {
  Create(DenseSearch({16, 24, 32, 40, 48, 56, 64, 72}, 2.9));
  for (int round = 1; round <= 3; ++round) {
    Play([&] {
      return sweep().search().round() >= round || IsFinal(sweep().state());
    });
    Tick(absl::Seconds(60));
    Restart();
    Tick();
    Obey();
    EXPECT_GE(sweep().search().round(), round);
  }
  Play();
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().runs(sweep().search().chosen_run()).label(),
            "method=dense width=48");
}

TEST_F(SweepSearchTest, ABudgetInTimeMeasuresFirstAndPlansWhatFits) {
  v1::SweepSpec spec = DenseSearch({16, 32, 48, 64}, 1.0);
  spec.mutable_job()->mutable_budget()->mutable_time()->set_seconds(600);
  Create(spec);
  ASSERT_THAT(asked_, SizeIs(4));
  Play([&] { return sweep().search().round() == 2; });
  // The two that go on have been created anew, with steps that take as long as
  // their share of the time that is left.
  ASSERT_THAT(asked_, SizeIs(6));
  for (int i = 4; i < 6; ++i) {
    const int64_t steps =
        asked_[i].request.spec().objective().late().max_steps();
    EXPECT_NEAR(static_cast<double>(steps), 100 * kStepsPerSecond,
                0.1 * 100 * kStepsPerSecond);
    EXPECT_NE(asked_[i].request.request_id(), asked_[0].request.request_id());
  }
  Play();
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_NEAR(sweep().search().spent(), 600, 60);
}

TEST_F(SweepSearchTest, TwoCandidatesAreMeasuredToo) {
  v1::SweepSpec spec = DenseSearch({16, 32}, 1.0);
  spec.mutable_job()->mutable_budget()->mutable_time()->set_seconds(600);
  Create(spec);
  ASSERT_THAT(asked_, SizeIs(2));
  Play();
  EXPECT_THAT(asked_, SizeIs(4));
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_NEAR(sweep().search().spent(), 600, 60);
}

TEST_F(SweepSearchTest, SurvivorsStartOverOneByOne) {
  v1::SweepSpec spec = DenseSearch({16, 32, 48, 64}, 1.0);
  spec.mutable_job()->mutable_budget()->mutable_time()->set_seconds(600);
  spec.set_max_parallel(1);
  Create(spec);
  ASSERT_THAT(asked_, SizeIs(1));
  Play([&] { return sweep().search().round() == 2; });
  ASSERT_THAT(asked_, SizeIs(5));
  Play();
  EXPECT_THAT(asked_, SizeIs(6));
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
}

TEST_F(SweepSearchTest, AnEarlierEventOfAJobThatHasEndedSettlesNothing) {
  Create(DenseSearch({16, 24}, 0, 44000));
  const std::string job = sweep().runs(0).job();
  jobs_[job].set_state(v1::SUCCEEDED);
  v1::JobEvent event;
  event.mutable_metrics()->set_step(10);
  Event(job, event);
  event.mutable_state_change()->set_state(v1::RUNNING);
  Event(job, event);
  EXPECT_EQ(sweep().runs(0).state(), v1::SWEEP_RUN_ACTIVE);
  Finish(job, 3.5, v1::TARGET_MET);
  EXPECT_EQ(sweep().runs(0).state(), v1::SWEEP_RUN_SUCCEEDED);
  EXPECT_THAT(sweep().runs(0).reason(), HasSubstr("loss 3.5 with 16,000"));
}

TEST_F(SweepSearchTest, AResultWithoutTheConfidenceMeetsNothing) {
  v1::SweepSpec spec = DenseSearch({16, 32, 48, 64}, 2.5);
  spec.mutable_job()->mutable_objective()->mutable_late()->set_confidence(0.9);
  Create(spec);
  // The width of 64 reaches the loss, but says that its bound does not.
  outcome_ = v1::TARGET_MISSED;
  Play();
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MISSED);
}

TEST_F(SweepSearchTest, TheEarlyValidationsOfALongRunAreKept) {
  const v1::SweepSpec spec = DenseSearch({16, 32, 48, 64}, 1.0);
  Create(spec);
  SweepRecord record = stored_[name_];
  std::vector<FieldViolation> violations;
  const SweepPlan plan = PlanSweep(spec, &violations);
  ASSERT_TRUE(violations.empty());
  SweepSearch search(&record, &plan);
  v1::StepMetrics metrics;
  for (int step = 10; step <= 1000; step += 10) {
    metrics.set_step(step);
    metrics.set_validation_loss(5 - step / 1000.0);
    metrics.set_size_parameters(1000);
    search.OnMetrics({false, 0}, metrics, now_, 1);
  }
  const auto& kept = record.runs(0).qualities();
  EXPECT_LE(kept.size(), 33);
  EXPECT_LE(kept.begin()->spent(), 20);
  EXPECT_EQ(kept.rbegin()->spent(), 1000);
}

TEST_F(SweepSearchTest, StepsOfTheJobFileAreKept) {
  v1::SweepSpec spec = DenseSearch({16, 32, 48, 64}, 1.0);
  spec.mutable_job()->mutable_budget()->mutable_time()->set_seconds(600);
  spec.mutable_job()->mutable_objective()->mutable_early()->set_steps(3000);
  Create(spec);
  Play();
  EXPECT_THAT(asked_, SizeIs(4));
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
}

TEST_F(SweepSearchTest, SharedEarlyStagesCompeteAsOne) {
  v1::SweepSpec spec = Search(2.0, 0);
  spec.mutable_job()->mutable_objective()->mutable_early()->set_steps(6000);
  spec.mutable_job()->mutable_objective()->mutable_late()->set_max_steps(2000);
  for (int hidden : {32, 64}) {
    for (double ratio : {0.9, 0.8}) {
      v1::SweepPoint& point = *spec.add_list();
      point.set_method(v1::CompressionSpec::COMERA);
      point.set_label(
          absl::StrCat("method=comera width=", hidden, " shrunk_to=", ratio));
      v1::FieldValue& field = *point.add_fields();
      field.set_path("model.hidden");
      field.set_value(absl::StrCat(hidden));
      point.mutable_target()->set_target_ratio(ratio);
    }
  }
  v1::SweepPoint& dense = *spec.add_list();
  dense.set_method(v1::CompressionSpec::DENSE);
  dense.set_label("method=dense width=64");
  context_.parallel = 3;
  Create(spec);
  ASSERT_EQ(sweep().stages_size(), 2);
  EXPECT_THAT(asked_, SizeIs(3));
  Play();
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  // The narrower stage was stopped, and its runs with it.
  EXPECT_EQ(sweep().stages(0).state(), v1::SWEEP_RUN_STOPPED);
  EXPECT_EQ(sweep().runs(0).state(), v1::SWEEP_RUN_STOPPED);
  EXPECT_EQ(sweep().runs(0).job(), "");
}

TEST_F(SweepSearchTest, WhatShrinksMoreIsSparedWhereShrinkingLessMissed) {
  // Width 64 has its floor at 2.4.
  Create(ShrinkingSearch(2.0, {0.8, 0.9}));
  ASSERT_EQ(sweep().stages_size(), 1);
  Play();
  EXPECT_EQ(sweep().runs(0).state(), v1::SWEEP_RUN_STOPPED);
  EXPECT_EQ(sweep().runs(0).job(), "");
  EXPECT_THAT(sweep().runs(0).reason(),
              HasSubstr("shrinks the same model less, missed the target"));
  EXPECT_EQ(sweep().search().chosen_run(), 1);
}

// A model that is pruned to a quarter of its size forgets what it learned.
class PrunedTooFarTest : public SweepSearchTest {
 protected:
  double LossAt(const v1::JobSpec& spec, int64_t step) override {
    const v1::ObjectiveSpec& objective = spec.objective();
    const bool lost = !objective.early().only() &&
                      step > objective.early().steps() &&
                      objective.late().target_ratio() < 0.5;
    return lost ? 6 : SweepSearchTest::LossAt(spec, step);
  }
};

TEST_F(PrunedTooFarTest, EndsBeforeItsRoundOnceAnotherHasMetTheTarget) {
  Create(ShrinkingSearch(2.5, {0.25, 0.5}));
  ASSERT_EQ(sweep().stages_size(), 1);
  Play();
  EXPECT_EQ(sweep().search().chosen_run(), 1);
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MET);
  EXPECT_EQ(sweep().runs(0).state(), v1::SWEEP_RUN_STOPPED);
  EXPECT_THAT(sweep().runs(0).reason(), HasSubstr("promises to miss it"));
  // Two validations were enough.
  const v1::JobSpec& job = jobs_[sweep().runs(0).job()].spec();
  EXPECT_EQ(sweep().runs(0).progress().step(),
            job.objective().early().steps() + 2 * kStride);
}

TEST_F(SweepSearchTest, CancellingEndsPausedJobsToo) {
  context_.parallel = 2;
  Create(DenseSearch({16, 24, 32, 40}, 1.0));
  while (jobs_["jobs/1"].state() != v1::PAUSED) {
    Train("jobs/1");
    Obey();
  }
  EXPECT_EQ(sweep().runs(0).job_state(), v1::PAUSED);
  SweepEffects effects;
  ASSERT_OK(engine_->Cancel(name_, "enough", now_, &effects));
  Take(std::move(effects));
  EXPECT_THAT(cancelled_, SizeIs(2));
  Obey();
  EXPECT_EQ(sweep().state(), v1::Sweep::CANCELLED);
  EXPECT_THAT(resumed_, IsEmpty());
}

TEST_F(SweepSearchTest, AFailedCandidateDoesNotEndTheSearch) {
  Create(DenseSearch({16, 24, 32, 40}, 1.0));
  End("jobs/1", v1::FAILED);
  ended_.insert("jobs/1");
  Play();
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().counts().failed(), 1);
}

}  // namespace
}  // namespace comera::server
