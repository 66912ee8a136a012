// Early stages in phases of different lengths and batches.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/data/batch/phased_data.h"
#include "worker/trainer/planning/phase_table.h"

namespace comera::trainer {
namespace {

// 15 steps of 8 tokens, 9 of 12 (half the batch), 16 of 20; then a late stage.
v1::JobSpec PhasedSpec() {
  v1::JobSpec spec = TinySpec();
  spec.mutable_data()->set_max_length(20);
  spec.mutable_model()->set_max_positions(20);
  const auto add = [&](int64_t steps, int32_t length, int32_t batch) {
    v1::Phase* phase = spec.mutable_training()->add_phases();
    phase->set_steps(steps);
    phase->set_max_length(length);
    phase->set_batch_size(batch);
  };
  add(15, 8, 8);
  add(9, 12, 4);
  add(16, 20, 6);
  spec.mutable_objective()->mutable_early()->set_steps(40);
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(0.01);
  late.set_target_ratio(0.5);
  late.set_max_steps(10);
  return WithDefaults(spec);
}

// Samples of the length of each phase, and what was asked for.
class Lengths : public PhasedData {
 public:
  Lengths()
      : PhasedData({{0, std::make_shared<FakeTrainingData>(8)},
                    {15, std::make_shared<FakeTrainingData>(12)},
                    {24, std::make_shared<FakeTrainingData>(20)}}) {}

  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    RETURN_IF_ERROR(
        PhasedData::TrainBatch(step, batch_size, rank, world_size, batch));
    shapes.push_back({batch->size * world_size, batch->length});
    return absl::OkStatus();
  }

  mutable std::vector<std::pair<int64_t, int64_t>> shapes;
};

TestRun RunPhased(FakeDisk* disk = nullptr, int64_t stop_after = 0,
                  const TrainingData* data = nullptr) {
  static const Lengths lengths;
  TestRun run;
  run.spec = PhasedSpec();
  run.other_data = data != nullptr ? data : &lengths;
  run.disk = disk;
  run.resume = disk != nullptr;
  run.stop_after_step = stop_after;
  run.Run();
  return run;
}

TEST(PhaseTableTest, StepsBelongToPhases) {
  const PhaseTable phases(PhasedSpec());
  EXPECT_EQ(phases.At(0), (TrainingPhase{0, 8, 8}));
  EXPECT_EQ(phases.At(14), (TrainingPhase{0, 8, 8}));
  EXPECT_EQ(phases.At(15), (TrainingPhase{15, 12, 4}));
  EXPECT_EQ(phases.At(24), (TrainingPhase{24, 20, 6}));
  EXPECT_EQ(phases.At(1000), phases.last());
  const PhaseTable one(TinySpec());
  EXPECT_EQ(one.At(7), (TrainingPhase{0, 8, 8}));
}

TEST(TrainerPhasesTest, EveryStepHasTheShapeOfItsPhase) {
  const Lengths data;
  const TestRun run = RunPhased(nullptr, 0, &data);
  ASSERT_OK(run.end);
  // Before, some batches were taken for the digest of the data.
  ASSERT_GE(data.shapes.size(), 50);
  const auto shapes = data.shapes.end() - 50;
  for (size_t i = 0; i < 50; ++i) {
    const std::pair<int64_t, int64_t> expected =
        i < 15   ? std::make_pair(int64_t{8}, int64_t{8})
        : i < 24 ? std::make_pair(int64_t{4}, int64_t{12})
                 : std::make_pair(int64_t{6}, int64_t{20});
    EXPECT_EQ(shapes[i], expected) << i;
  }
  // Validation at steps 10 and 20 took the last phase's samples meanwhile.
  EXPECT_EQ(run.exported_config.length, 20);
  for (const auto& event : run.Select(&v1::TrainerEvent::has_metrics)) {
    EXPECT_EQ(event.metrics().has_validation_loss(),
              event.metrics().step() % 10 == 0)
        << event.metrics().step();
  }
  EXPECT_LT(run.Losses().at(50), 0.9 * run.Losses().at(1));
}

TEST(TrainerPhasesTest, ValidationInBetweenChangesNothing) {
  TestRun often = RunPhased();
  TestRun seldom;
  seldom.spec = PhasedSpec();
  seldom.spec.mutable_training()->set_validate_every_steps(1000);
  const Lengths data;
  seldom.other_data = &data;
  seldom.Run();
  ASSERT_OK(seldom.end);
  const auto want = often.Losses(), got = seldom.Losses();
  for (int64_t step = 1; step <= 40; ++step) {
    EXPECT_EQ(got.at(step), want.at(step)) << step;
  }
}

class ResumeAtTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(ResumeAtTest, RepeatsTheWholeRunAcrossBorders) {
  const TestRun whole = RunPhased();
  FakeDisk disk;
  ASSERT_TRUE(RunPhased(&disk, GetParam() - 1).end->stopped);
  const TestRun resumed = RunPhased(&disk);
  ASSERT_OK(resumed.end);
  EXPECT_EQ(resumed.events.front().run_info().resumed_from_step(), GetParam());
  const auto want = whole.Losses();
  for (const auto& [step, loss] : resumed.Losses()) {
    EXPECT_EQ(loss, want.at(step)) << step;
  }
  EXPECT_EQ(resumed.exported, whole.exported);
}

INSTANTIATE_TEST_SUITE_P(Steps, ResumeAtTest,
                         ::testing::Values(9, 14, 15, 16, 23, 24, 25, 41));

TEST(TrainerPhasesTest, TwoRanksDoWhatOneDoes) {
  const TestRun one = RunPhased();
  TestRun two;
  two.spec = PhasedSpec();
  const PhasedData data({{0, std::make_shared<FakeTrainingData>(8)},
                         {15, std::make_shared<FakeTrainingData>(12)},
                         {24, std::make_shared<FakeTrainingData>(20)}});
  two.other_data = &data;
  two.Run(2);
  ASSERT_OK(two.end);
  const auto want = one.Losses(), got = two.Losses();
  for (const int64_t step : {1, 15, 16, 24, 25, 30}) {
    EXPECT_NEAR(got.at(step), want.at(step), 2e-2 * want.at(step)) << step;
  }
}

TEST(TrainerPhasesTest, ABatchThatRanksCannotShareIsRefused) {
  TestRun run;
  run.spec = PhasedSpec();
  run.spec.mutable_training()->mutable_phases(1)->set_batch_size(5);
  const Lengths data;
  run.other_data = &data;
  run.Run(2);
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
