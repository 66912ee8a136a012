// Whole runs whose training diverges, because some of their steps see labels
// that have nothing to do with the samples.
#include <cstdint>
#include <limits>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// The tiny job's data, with labels that do not occur otherwise in the steps
// from `first` up to `end`.
class SpoiltData : public FakeTrainingData {
 public:
  SpoiltData(int64_t first, int64_t end) : first_(first), end_(end) {}

  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    const absl::Status status = FakeTrainingData::TrainBatch(
        step, batch_size, rank, world_size, batch);
    if (step < first_ || step >= end_) return status;
    for (size_t i = 0; i < batch->labels.size(); ++i) {
      batch->labels[i] =
          static_cast<int32_t>(kWords + 1 + (7 * step + 5 * i) % 24);
    }
    return status;
  }

 private:
  const int64_t first_, end_;
};

v1::JobSpec Spec(v1::TrainingSpec::Divergence what) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_objective()->mutable_early()->set_steps(100);
  spec.mutable_objective()->mutable_early()->set_gamma(0);
  spec.mutable_optimizer()->set_kind(v1::OptimizerSpec::ADAMW);
  spec.mutable_training()->set_validate_every_steps(20);
  spec.mutable_training()->set_on_divergence(what);
  return spec;
}

std::vector<v1::TrainerEvent> Incidents(const TestRun& run) {
  return run.Select(&v1::TrainerEvent::has_incident);
}

TEST(TrainerDivergenceTest, FailsWithStepLossAndBaseline) {
  const SpoiltData data(40, 100);
  TestRun run;
  run.spec = Spec(v1::TrainingSpec::FAIL);
  run.other_data = &data;
  run.Run();
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::DIVERGED);
  EXPECT_THAT(run.end.status().message(), HasSubstr("step 60: "));
  EXPECT_THAT(run.end.status().message(), HasSubstr("1.9459"));
  EXPECT_TRUE(run.exported.empty());
  // The loss that it failed with was reported.
  EXPECT_GT(run.events.back().metrics().validation_loss(), 1.9459);
}

TEST(TrainerDivergenceTest, GoesOnWithLowerRates) {
  const SpoiltData data(40, 60);
  for (int members : {1, 2}) {
    TestRun run;
    run.spec = Spec(v1::TrainingSpec::LOWER_RATE);
    run.other_data = &data;
    run.Run(members);
    ASSERT_OK(run.end);
    ASSERT_THAT(Incidents(run), SizeIs(1));
    EXPECT_THAT(Incidents(run)[0].incident().message(),
                HasSubstr("going on with the state of step 40"));
    EXPECT_EQ(run.end->result.step(), 100);
    EXPECT_LT(run.end->result.validation_loss(), 1.9459);
    for (const v1::TrainerEvent& event :
         run.Select(&v1::TrainerEvent::has_metrics)) {
      const v1::StepMetrics& m = event.metrics();
      EXPECT_EQ(m.learning_rate_scale(), m.step() <= 60 ? 1 : 0.5) << m.step();
    }
  }
}

TEST(TrainerDivergenceTest, GivesUpAfterThreeReturns) {
  const SpoiltData data(80, std::numeric_limits<int64_t>::max());
  TestRun run;
  run.spec = Spec(v1::TrainingSpec::LOWER_RATE);
  run.spec.mutable_objective()->mutable_early()->set_steps(300);
  run.spec.mutable_training()->set_validate_every_steps(10);
  // Rates that halving them thrice leaves high enough to diverge.
  run.spec.mutable_optimizer()->set_learning_rate_other(0.02);
  run.other_data = &data;
  run.Run();
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::DIVERGED);
  EXPECT_THAT(Incidents(run), SizeIs(3));
}

TEST(TrainerDivergenceTest, AResumedRunKeepsTheRateAndTheState) {
  const SpoiltData data(40, 60);
  TestRun whole;
  whole.spec = Spec(v1::TrainingSpec::LOWER_RATE);
  whole.other_data = &data;
  whole.Run();
  ASSERT_OK(whole.end);
  // Before the divergence, and after it.
  for (int64_t stop : {43, 73}) {
    FakeDisk disk;
    TestRun first;
    first.spec = whole.spec;
    first.other_data = &data;
    first.disk = &disk;
    first.stop_after_step = stop;
    first.Run();
    ASSERT_OK(first.end);
    ASSERT_TRUE(first.end->stopped);
    TestRun second;
    second.spec = whole.spec;
    second.other_data = &data;
    second.disk = &disk;
    second.resume = true;
    second.Run();
    ASSERT_OK(second.end);
    EXPECT_THAT(Incidents(second), SizeIs(stop < 60 ? 1 : 0));
    EXPECT_EQ(second.exported, whole.exported) << stop;
    for (const auto& [step, loss] : second.Losses()) {
      EXPECT_EQ(loss, whole.Losses().at(step)) << step;
    }
  }
}

}  // namespace
}  // namespace comera::trainer
