// A run that was interrupted and resumed repeats the uninterrupted one bit by
// bit.
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/trainer_harness.h"
#include "worker/trainer/failure.h"

namespace comera::trainer {
namespace {

using ::testing::Contains;
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

class TrainerResumeAtTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerResumeAtTest, StoppedAndResumed) {
  FakeDisk disk;
  TestRun first;
  first.spec = TwoStageSpec();
  first.disk = &disk;
  first.stop_after_step = GetParam() - 1;
  first.Run();
  ASSERT_OK(first.end);
  ASSERT_TRUE(first.end->stopped);
  ASSERT_EQ(first.last_steps[0], GetParam());

  TestRun second;
  second.spec = first.spec;
  second.disk = &disk;
  second.resume = true;
  second.Run();
  ASSERT_OK(second.end);
  EXPECT_EQ(second.events.front().run_info().resumed_from_step(), GetParam());
  ExpectSameFrom(GetParam(), second);
}

INSTANTIATE_TEST_SUITE_P(Steps, TrainerResumeAtTest,
                         ::testing::Values(2, 9, 10, 24, 25, 26, 33, 39, 40, 41,
                                           50, 58, 69));

TEST(TrainerResumeTest, FromAnOlderCheckpointWhenTheNewestIsDamaged) {
  FakeDisk disk;
  TestRun first;
  first.spec = TwoStageSpec();
  first.disk = &disk;
  first.stop_after_step = 47;
  first.Run();
  ASSERT_OK(first.end);
  disk.files.rbegin()->second[200] ^= 4;

  TestRun second;
  second.spec = first.spec;
  second.disk = &disk;
  second.resume = true;
  second.Run();
  ASSERT_OK(second.end);
  EXPECT_THAT(second.log, Contains(HasSubstr("damaged checkpoint")));
  ExpectSameFrom(40, second);
}

TEST(TrainerResumeTest, FromTheStartWhenAllAreDamaged) {
  FakeDisk disk;
  disk.files["step-000000000010.checkpoint"] = "junk";
  TestRun run;
  run.spec = TwoStageSpec();
  run.disk = &disk;
  run.resume = true;
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_THAT(run.log, Contains(HasSubstr("starting from step 0")));
  ExpectSameFrom(0, run);
}

TEST(TrainerResumeTest, WithoutResumeTheCheckpointIsIgnored) {
  FakeDisk disk;
  TestRun first;
  first.spec = TwoStageSpec();
  first.disk = &disk;
  first.stop_after_step = 20;
  first.Run();
  TestRun second;
  second.spec = first.spec;
  second.disk = &disk;
  second.Run();
  ExpectSameFrom(0, second);
}

TEST(TrainerResumeTest, AnotherSpecificationIsTheUsersMistake) {
  FakeDisk disk;
  TestRun first;
  first.spec = TwoStageSpec();
  first.disk = &disk;
  first.stop_after_step = 20;
  first.Run();
  TestRun second;
  second.spec = TwoStageSpec();
  second.spec.mutable_optimizer()->set_learning_rate_cores(0.02);
  second.disk = &disk;
  second.resume = true;
  second.Run();
  EXPECT_THAT(second.end, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("another specification")));
  EXPECT_EQ(FailureClassOf(second.end.status()), v1::USER);
}

}  // namespace
}  // namespace comera::trainer
