// What counts as a spike of the gradient, and what follows several in a row.
#include "worker/trainer/loop/spike_watch.h"

#include <cmath>
#include <memory>
#include <string>

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

class SpikeWatchTest : public ::testing::Test {
 protected:
  SpikeWatchTest() { spec_.mutable_training()->set_spike_factor(3); }

  void Make() {
    parts_ = std::make_unique<TrainerParts>(spec_);
    parts_->Make();
    watch_ =
        std::make_unique<SpikeWatch>(&parts_->options, parts_->schedule.get(),
                                     &progress(), parts_->reporter.get());
    ASSERT_TRUE(watch_->on());
  }

  TrainingProgress& progress() { return parts_->progress; }
  SpikeState& spikes() { return progress().spikes; }

  // The next step, with a gradient of this norm. -1: it ends the run.
  int Step(double norm) {
    const absl::StatusOr<bool> spike = watch_->Judge(norm);
    ++progress().step;
    if (spike.ok()) return *spike ? 1 : 0;
    EXPECT_EQ(FailureClassOf(spike.status()), v1::DIVERGED);
    failure_ = spike.status();
    return -1;
  }
  void Steps(int count, double norm) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(Step(norm), 0) << i;
  }

  v1::JobSpec spec_ = TinySpec();
  std::unique_ptr<TrainerParts> parts_;
  std::unique_ptr<SpikeWatch> watch_;
  absl::Status failure_;
};

TEST_F(SpikeWatchTest, IsOffWithoutAFactor) {
  Make();
  parts_->options.spec.mutable_training()->clear_spike_factor();
  EXPECT_FALSE(watch_->on());
}

TEST_F(SpikeWatchTest, ANormFarAboveTheMeanIsAnIncident) {
  Make();
  Steps(10, 2.0);
  EXPECT_EQ(Step(5.9), 0);
  const SpikeState before = spikes();
  EXPECT_NEAR(before.mean(), 2.0 + 3.9 * 0.02 / before.weight, 1e-9);
  EXPECT_EQ(Step(8), 1);
  // It leaves the mean as it was.
  EXPECT_EQ(spikes().mean(), before.mean());
  EXPECT_EQ(spikes().norms, 11);
  EXPECT_EQ(spikes().skipped, 1);
  ASSERT_THAT(parts_->events, SizeIs(1));
  const v1::Failure& incident = parts_->events[0].incident();
  EXPECT_EQ(incident.failure_class(), v1::DIVERGED);
  EXPECT_THAT(incident.message(),
              HasSubstr("step 12: the norm of the gradient, 8, is 3."));
  EXPECT_THAT(incident.message(), HasSubstr("; the step is left out"));
}

TEST_F(SpikeWatchTest, TheFirstNormsAreNotJudged) {
  Make();
  for (int i = 0; i < SpikeWatch::kLeastNorms; ++i) {
    EXPECT_EQ(Step(i % 2 == 0 ? 1 : 100), 0) << i;
  }
  EXPECT_EQ(Step(1e4), 1);
}

TEST_F(SpikeWatchTest, TheWarmUpIsNoPartOfTheMean) {
  spec_.mutable_optimizer()->set_warmup_steps(12);
  Make();
  Steps(12, 1000);
  EXPECT_EQ(spikes().norms, 0);
  Steps(10, 1);
  EXPECT_EQ(Step(10), 1);
}

TEST_F(SpikeWatchTest, ThreeInARowHaveDiverged) {
  Make();
  Steps(10, 1);
  EXPECT_EQ(Step(10), 1);
  EXPECT_EQ(Step(10), 1);
  EXPECT_EQ(Step(1), 0);  // these were two
  EXPECT_EQ(Step(10), 1);
  EXPECT_EQ(Step(10), 1);
  EXPECT_EQ(Step(10), -1);
  EXPECT_THAT(std::string(failure_.message()),
              HasSubstr("the 2 steps before were left out for the "
                        "same reason"));
  EXPECT_THAT(parts_->events, SizeIs(4));
  EXPECT_EQ(spikes().skipped, 5);
}

TEST_F(SpikeWatchTest, IgnoreTakesThemForTheNewMean) {
  spec_.mutable_training()->set_on_divergence(v1::TrainingSpec::IGNORE);
  Make();
  Steps(10, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Step(10), 1) << i;
  Steps(10, 10);
  EXPECT_DOUBLE_EQ(spikes().mean(), 10);
  ASSERT_THAT(parts_->events, SizeIs(3));
  EXPECT_THAT(parts_->events[2].incident().message(),
              HasSubstr("and the mean begins anew"));
}

TEST_F(SpikeWatchTest, APhaseHasAMeanOfItsOwn) {
  for (const int64_t steps : {12, 18}) {
    v1::Phase* phase = spec_.mutable_training()->add_phases();
    phase->set_steps(steps);
    phase->set_max_length(8);
    phase->set_batch_size(8);
  }
  Make();
  Steps(12, 1);
  Steps(10, 50);
  EXPECT_DOUBLE_EQ(spikes().mean(), 50);
}

TEST_F(SpikeWatchTest, WhatIsNoNumberIsLeftToOthers) {
  Make();
  Steps(10, 1);
  EXPECT_EQ(Step(NAN), 0);
  EXPECT_EQ(Step(INFINITY), 0);
  EXPECT_EQ(spikes().norms, 10);
  EXPECT_THAT(parts_->events, IsEmpty());
}

}  // namespace
}  // namespace comera::trainer
