// Whole runs in which some gradients are far too large.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/loud_batches.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A run of 40 steps, the loud ones among which are spikes.
void Prepare(const TrainingData* data, v1::TrainingSpec::Divergence what,
             TestRun* run) {
  run->spec.mutable_objective()->mutable_early()->set_steps(40);
  run->spec.mutable_training()->set_spike_factor(10);
  run->spec.mutable_training()->set_on_divergence(what);
  run->other_data = data;
  run->model_factory = LoudModel::Create;
}

std::vector<v1::Failure> Incidents(const TestRun& run) {
  std::vector<v1::Failure> incidents;
  for (const auto& event : run.Select(&v1::TrainerEvent::has_incident)) {
    incidents.push_back(event.incident());
  }
  return incidents;
}

TEST(TrainerSpikeTest, IsLeftOutAndToldByAnyNumberOfMembersAndParts) {
  const LoudData data(25, 26);
  std::map<int64_t, double> losses;
  for (const auto& [members, parts] : {std::pair(1, 1), {2, 1}, {1, 4}}) {
    SCOPED_TRACE(testing::Message() << members << " members, " << parts);
    TestRun run;
    Prepare(&data, v1::TrainingSpec::FAIL, &run);
    run.spec.mutable_training()->set_accumulate(parts);
    run.Run(members);
    for (const absl::Status& status : run.statuses) ASSERT_OK(status);
    EXPECT_EQ(run.end->result.step(), 40);
    const auto incidents = Incidents(run);
    ASSERT_THAT(incidents, SizeIs(1));
    EXPECT_EQ(incidents[0].failure_class(), v1::DIVERGED);
    EXPECT_THAT(incidents[0].message(),
                HasSubstr("step 26: the norm of the gradient, "));
    // It has metrics like any other.
    EXPECT_EQ(run.Losses().size(), 40u);
    if (losses.empty()) losses = run.Losses();
    for (const auto& [step, loss] : losses) {
      EXPECT_NEAR(run.Losses().at(step), loss, 1e-4 * loss) << step;
    }
  }
}

TEST(TrainerSpikeTest, HarmsTheModelWithoutAWatch) {
  const LoudData data(25, 26);
  TestRun watched, careless;
  Prepare(&data, v1::TrainingSpec::FAIL, &watched);
  Prepare(&data, v1::TrainingSpec::FAIL, &careless);
  careless.spec.mutable_training()->clear_spike_factor();
  watched.Run();
  careless.Run();
  ASSERT_OK(watched.end);
  ASSERT_OK(careless.end);
  EXPECT_THAT(Incidents(careless), SizeIs(0));
  EXPECT_EQ(watched.Losses().at(26), careless.Losses().at(26));
  EXPECT_NE(watched.Losses().at(27), careless.Losses().at(27));
}

TEST(TrainerSpikeTest, ThreeInARowFail) {
  const LoudData data(25, 40);
  TestRun run;
  Prepare(&data, v1::TrainingSpec::FAIL, &run);
  run.Run(2);
  for (const absl::Status& status : run.statuses) {
    EXPECT_EQ(FailureClassOf(status), v1::DIVERGED);
    EXPECT_THAT(std::string(status.message()), HasSubstr("step 28: the norm"));
  }
  EXPECT_THAT(Incidents(run), SizeIs(2));
  EXPECT_TRUE(run.exported.empty());
}

TEST(TrainerSpikeTest, ThreeInARowLowerTheRates) {
  const LoudData data(25, 28);
  for (int members : {1, 2}) {
    TestRun run;
    Prepare(&data, v1::TrainingSpec::LOWER_RATE, &run);
    run.Run(members);
    for (const absl::Status& status : run.statuses) ASSERT_OK(status);
    const auto incidents = Incidents(run);
    ASSERT_THAT(incidents, SizeIs(3));
    EXPECT_THAT(incidents[2].message(), HasSubstr("step 28: the norm of the"));
    EXPECT_THAT(incidents[2].message(),
                HasSubstr("; going on with the state "));
    EXPECT_EQ(run.end->result.step(), 40);
    for (const auto& event : run.Select(&v1::TrainerEvent::has_metrics)) {
      const v1::StepMetrics& m = event.metrics();
      EXPECT_EQ(m.learning_rate_scale(), m.step() < 28 ? 1 : 0.5) << m.step();
    }
  }
}

TEST(TrainerSpikeTest, IgnoreGoesOn) {
  const LoudData data(25, 28);
  TestRun run;
  Prepare(&data, v1::TrainingSpec::IGNORE, &run);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_EQ(run.end->result.step(), 40);
  EXPECT_THAT(Incidents(run), SizeIs(3));
}

TEST(TrainerSpikeTest, AResumedRunRemembersTheNorms) {
  const LoudData data(25, 27);
  TestRun whole;
  Prepare(&data, v1::TrainingSpec::FAIL, &whole);
  whole.Run();
  ASSERT_OK(whole.end);
  ASSERT_THAT(Incidents(whole), SizeIs(2));
  // Right before the first, and between the two: a checkpoint follows the step
  // after the one that was reported.
  for (const int64_t stop : {24, 25}) {
    FakeDisk disk;
    TestRun first, second;
    Prepare(&data, v1::TrainingSpec::FAIL, &first);
    Prepare(&data, v1::TrainingSpec::FAIL, &second);
    first.disk = second.disk = &disk;
    first.stop_after_step = stop;
    first.Run();
    ASSERT_OK(first.end);
    ASSERT_TRUE(first.end->stopped);
    second.resume = true;
    second.Run();
    ASSERT_OK(second.end);
    EXPECT_EQ(Incidents(first).size() + Incidents(second).size(), 2u);
    EXPECT_EQ(second.exported, whole.exported) << stop;
  }
}

TEST(TrainerSpikeTest, TheLateStageHasThemToo) {
  const LoudData data(30, 31);
  TestRun run;
  Prepare(&data, v1::TrainingSpec::FAIL, &run);
  run.spec.mutable_objective()->mutable_early()->set_steps(15);
  v1::LateStage& late = *run.spec.mutable_objective()->mutable_late();
  late.set_target_loss(0.01);
  late.set_target_ratio(0.9);
  late.set_max_steps(20);
  run.spec = WithDefaults(run.spec);
  run.Run();
  ASSERT_OK(run.end);
  // The first says that nothing was learned.
  ASSERT_THAT(Incidents(run), SizeIs(2));
  EXPECT_THAT(Incidents(run)[1].message(), HasSubstr("step 31: the norm"));
  EXPECT_EQ(run.end->result.step(), 35);
}

}  // namespace
}  // namespace comera::trainer
