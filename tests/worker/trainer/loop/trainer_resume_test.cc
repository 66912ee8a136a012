// A run that was interrupted and resumed repeats the uninterrupted one bit by
// bit.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Early to step 40, late to 70; entries die from about step 20 on.
v1::JobSpec TwoStageSpec() {
  v1::JobSpec spec = TinySpec();
  spec.mutable_objective()->mutable_early()->set_steps(40);
  spec.mutable_objective()->mutable_early()->set_gamma(0.3);
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(1.0);
  late.set_target_ratio(0.1);
  late.set_w_size(20);
  late.set_max_steps(30);
  return WithDefaults(spec);
}

const TestRun& Uninterrupted() {
  static const TestRun* run = [] {
    auto* r = new TestRun;
    r->spec = TwoStageSpec();
    r->Run();
    return r;
  }();
  return *run;
}

void ExpectSameFrom(int64_t first, const TestRun& resumed) {
  const auto want = Uninterrupted().Losses();
  const auto got = resumed.Losses();
  ASSERT_EQ(static_cast<int64_t>(got.size()), 70 - first);
  for (const auto& [step, loss] : got) {
    ASSERT_EQ(loss, want.at(step)) << "step " << step;
  }
  const v1::TrainingResult& a = Uninterrupted().end->result;
  EXPECT_EQ(resumed.end->result.SerializeAsString(), a.SerializeAsString());
  EXPECT_EQ(resumed.exported, Uninterrupted().exported);
}

TEST(TrainerResumeTest, TheRunToRepeatCompactsInBothStages) {
  ASSERT_OK(Uninterrupted().end);
  std::vector<int64_t> early, late;
  for (const auto& event :
       Uninterrupted().Select(&v1::TrainerEvent::has_rank_snapshot)) {
    const int64_t step = event.rank_snapshot().step();
    if (step > 0 && step < 40) early.push_back(step);
    if (step > 40 && step < 70) late.push_back(step);
  }
  EXPECT_THAT(early, SizeIs(Ge(1)));
  EXPECT_THAT(late, SizeIs(Ge(1)));
  EXPECT_EQ(Uninterrupted().end->result.outcome(), v1::TARGET_MISSED);
}

// Leaves a checkpoint of the step after `step`.
void RunUntil(int64_t step, FakeDisk* disk,
              const v1::JobSpec& spec = TwoStageSpec()) {
  TestRun run;
  run.spec = spec;
  run.disk = disk;
  run.stop_after_step = step;
  run.Run();
  ASSERT_OK(run.end);
  ASSERT_TRUE(run.end->stopped);
  ASSERT_EQ(run.last_steps[0], step + 1);
}

TestRun Resume(FakeDisk* disk, const v1::JobSpec& spec = TwoStageSpec()) {
  TestRun run;
  run.spec = spec;
  run.disk = disk;
  run.resume = true;
  run.Run();
  return run;
}

TEST(TrainerResumeTest, TokensWithDenseRowsAreThoseOfTheData) {
  v1::JobSpec spec = TwoStageSpec();
  spec.mutable_model()->set_tie_output(true);
  spec.mutable_compression()->clear_output();
  spec.mutable_compression()->mutable_embedding()->set_dense_tokens(3);
  TestRun whole;
  whole.spec = spec;
  whole.Run();
  ASSERT_OK(whole.end);
  EXPECT_THAT(
      whole.exported_config.layers_by_name.at("embedding").dense_tokens,
      ElementsAre(24, 27, 30));
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(44, &disk, spec));
  const TestRun resumed = Resume(&disk, spec);
  ASSERT_OK(resumed.end);
  EXPECT_EQ(resumed.events.front().run_info().resumed_from_step(), 45);
  EXPECT_EQ(resumed.exported, whole.exported);
}

// Counts its tokens otherwise, though its batches are the same.
class OtherCounts : public FakeTrainingData {
 public:
  std::vector<int64_t> TokenCounts() const override {
    std::vector<int64_t> counts = FakeTrainingData::TokenCounts();
    std::reverse(counts.begin(), counts.end());
    return counts;
  }
};

TEST(TrainerResumeTest, DenseRowsAreNotGivenToOtherTokens) {
  v1::JobSpec spec = TwoStageSpec();
  spec.mutable_compression()->mutable_embedding()->set_dense_tokens(3);
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(4, &disk, spec));
  const OtherCounts other;
  TestRun resumed;
  resumed.spec = spec;
  resumed.disk = &disk;
  resumed.resume = true;
  resumed.other_data = &other;
  resumed.Run();
  EXPECT_THAT(resumed.end,
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("data")));
}

// What is left is whole, and the job resumes as if nothing had been asked.
TEST(TrainerResumeTest, AStoppedRunMayLeaveItsBestModel) {
  for (const int64_t step : {20, 50}) {
    FakeDisk disk;
    TestRun run;
    run.spec = TwoStageSpec();
    run.disk = &disk;
    run.finish = true;
    run.stop_after_step = step;
    run.Run(2);
    ASSERT_OK(run.end);
    EXPECT_TRUE(run.end->stopped);
    EXPECT_TRUE(run.end->left_model);
    EXPECT_EQ(run.end->result.outcome(), v1::OUTCOME_UNSPECIFIED);
    EXPECT_EQ(run.end->result.step(), step + 1);
    EXPECT_EQ(run.end->result.size_bytes(), ExportedBytes(run.best_config));
    ASSERT_THAT(run.Select(&v1::TrainerEvent::has_result), SizeIs(1));
    EXPECT_FALSE(run.best.empty());
    EXPECT_TRUE(run.exported.empty());
    const TestRun resumed = Resume(&disk);
    ASSERT_OK(resumed.end);
    EXPECT_EQ(resumed.end->result.outcome(), v1::TARGET_MISSED);
  }
}

TEST(TrainerResumeTest, AModelThatWasNeverValidatedIsNotLeft) {
  FakeDisk disk;
  TestRun run;
  run.spec = TwoStageSpec();
  run.disk = &disk;
  run.finish = true;
  run.stop_after_step = 2;
  run.Run(2);
  ASSERT_OK(run.end);
  EXPECT_TRUE(run.end->stopped);
  EXPECT_FALSE(run.end->left_model);
  EXPECT_TRUE(run.best.empty());
  EXPECT_THAT(run.Select(&v1::TrainerEvent::has_result), SizeIs(0));
  EXPECT_FALSE(disk.files.empty());
}

class TrainerResumeAtTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerResumeAtTest, StoppedAndResumed) {
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(GetParam() - 1, &disk));
  const TestRun resumed = Resume(&disk);
  ASSERT_OK(resumed.end);
  EXPECT_EQ(resumed.events.front().run_info().resumed_from_step(), GetParam());
  ExpectSameFrom(GetParam(), resumed);
}

INSTANTIATE_TEST_SUITE_P(Steps, TrainerResumeAtTest,
                         ::testing::Values(2, 9, 10, 24, 25, 26, 33, 39, 40, 41,
                                           50, 58, 69));

TEST(TrainerResumeTest, Complaint12_FallsBackFromADamagedCheckpoint) {
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(47, &disk));
  disk.files.rbegin()->second[200] ^= 4;
  const TestRun resumed = Resume(&disk);
  ASSERT_OK(resumed.end);
  EXPECT_THAT(resumed.log, Contains(HasSubstr("damaged checkpoint")));
  const auto incidents = resumed.Select(&v1::TrainerEvent::has_incident);
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].incident().failure_class(), v1::CHECKPOINT_DAMAGED);
  EXPECT_THAT(incidents[0].incident().message(),
              HasSubstr("going on from step 40"));
  ExpectSameFrom(40, resumed);
}

TEST(TrainerResumeTest, Complaint12_NothingGoodIsAFailureOfItsOwnClass) {
  FakeDisk disk;
  disk.files["step-000000000010.checkpoint"] = "junk";
  const TestRun run = Resume(&disk);
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::CHECKPOINT_DAMAGED);
  // The coordinator tries it again without them; they must not outlive what
  // the new run writes.
  TestRun anew;
  anew.spec = TwoStageSpec();
  anew.disk = &disk;
  anew.Run();
  ExpectSameFrom(0, anew);
  for (const auto& [name, contents] : disk.files) EXPECT_NE(contents, "junk");
}

TEST(TrainerResumeTest, ChangedDataAreRefused) {
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(20, &disk));
  CheckpointStore store(std::make_unique<FakeCheckpointFiles>(&disk), {});
  ASSERT_OK_AND_ASSIGN(auto loaded,
                       store.LoadNewest(SpecFingerprint(TwoStageSpec())));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.data_digest.size(), 64u);
  loaded->state.data_digest[0] ^= 1;
  ASSERT_OK(store.Save(loaded->state));
  const TestRun run = Resume(&disk);
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::DATA);
  EXPECT_THAT(std::string(run.end.status().message()),
              HasSubstr("data: the samples are not those"));
}

TEST(TrainerResumeTest, WithoutResumeTheCheckpointIsIgnored) {
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(20, &disk));
  TestRun second;
  second.spec = TwoStageSpec();
  second.disk = &disk;
  second.Run();
  ExpectSameFrom(0, second);
}

TEST(TrainerResumeTest, AnotherSpecificationIsTheUsersMistake) {
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(20, &disk));
  v1::JobSpec other = TwoStageSpec();
  other.mutable_optimizer()->set_learning_rate_cores(0.02);
  const TestRun second = Resume(&disk, other);
  EXPECT_THAT(second.end, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("another specification")));
  EXPECT_EQ(FailureClassOf(second.end.status()), v1::USER);
}

TEST(TrainerResumeTest, PartsThatDoNotFitTheModelAreRefused) {
  FakeDisk disk;
  ASSERT_NO_FATAL_FAILURE(RunUntil(50, &disk));
  CheckpointStore store(std::make_unique<FakeCheckpointFiles>(&disk), {});
  ASSERT_OK_AND_ASSIGN(const auto loaded,
                       store.LoadNewest(SpecFingerprint(TwoStageSpec())));
  ASSERT_TRUE(loaded.has_value());
  ASSERT_TRUE(loaded->state.nearest.has_value());
  const auto expect_refused =
      [&](const std::function<void(TrainingState&)>& change) {
        TrainingState state = loaded->state;
        change(state);
        ASSERT_OK(store.Save(state));
        EXPECT_FALSE(Resume(&disk).end.ok());
      };
  expect_refused([](TrainingState& s) { s.nearest->parameters.pop_back(); });
  expect_refused([](TrainingState& s) { s.nearest->ranks.clear(); });
  expect_refused([](TrainingState& s) { s.ranks.begin()->second[0] = 1000; });
  expect_refused([](TrainingState& s) { s.ranks["no such layer"] = {1}; });
  expect_refused([](TrainingState& s) {
    for (auto* buffer : {&s.parameters, &s.first_moment, &s.second_moment}) {
      buffer->pop_back();
    }
  });
}

}  // namespace
}  // namespace comera::trainer
