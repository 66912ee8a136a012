// What is saved of a training run, when, and what it goes on from.
#include "worker/trainer/loop/state_keeper.h"

#include <string>

#include "common/status_matchers.h"
#include "common/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A keeper after two steps, with its data known.
struct KeptRun : TrainerParts {
  explicit KeptRun(const v1::JobSpec& spec = TinySpec()) : TrainerParts(spec) {}

  void Begin() {
    Make();
    auto loaded = keeper->Load();
    ASSERT_OK(loaded);
    ASSERT_FALSE(loaded->has_value());
    TrainerParts::Load();
    keeper->Begin(0);
    Steps(2);
    events.clear();
  }
};

TEST(StateKeeperTest, ThereIsNothingToLoadAtFirst) {
  TrainerParts parts;
  parts.options.resume = true;
  parts.Make();
  ASSERT_OK_AND_ASSIGN(const auto state, parts.keeper->Load());
  EXPECT_FALSE(state.has_value());
}

TEST(StateKeeperTest, ACheckpointIsLoadedAsItWasSaved) {
  KeptRun run;
  run.Begin();
  ASSERT_OK_AND_ASSIGN(const TrainingState saved, run.keeper->Capture());
  run.keeper->SaveCheckpoint();
  ASSERT_THAT(run.events, SizeIs(1));
  EXPECT_EQ(run.events[0].checkpoint().step(), 2);
  EXPECT_FALSE(run.events[0].checkpoint().snapshot());

  TrainerParts next;
  next.disk = run.disk;
  next.options.resume = true;
  next.Make();
  ASSERT_OK_AND_ASSIGN(const auto loaded, next.keeper->Load());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->Serialize().value(), saved.Serialize().value());
}

TEST(StateKeeperTest, WithoutResumeNoCheckpointIsLoaded) {
  KeptRun run;
  run.Begin();
  run.keeper->SaveCheckpoint();
  TrainerParts next;
  next.disk = run.disk;
  next.Make();
  ASSERT_OK_AND_ASSIGN(const auto loaded, next.keeper->Load());
  EXPECT_FALSE(loaded.has_value());
}

TEST(StateKeeperTest, ADamagedCheckpointIsPassedOverWithAnIncident) {
  KeptRun run;
  run.Begin();
  run.keeper->SaveCheckpoint();
  run.Steps(1);
  run.keeper->SaveCheckpoint();
  TrainerParts next;
  next.disk = run.disk;
  next.disk.files.rbegin()->second[100] ^= 1;
  next.options.resume = true;
  next.Make();
  ASSERT_OK_AND_ASSIGN(const auto loaded, next.keeper->Load());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->progress.step, 2);
  ASSERT_THAT(next.events, SizeIs(1));
  EXPECT_EQ(next.events[0].incident().failure_class(), v1::CHECKPOINT_DAMAGED);

  for (auto& [name, contents] : next.disk.files) contents[100] ^= 2;
  const auto none = next.keeper->Load();
  EXPECT_EQ(FailureClassOf(none.status()), v1::CHECKPOINT_DAMAGED);
}

// Leaves two checkpoints of attempt 2, after two and three steps.
void SaveTwice(KeptRun* run) {
  run->options.attempt = 2;
  run->Begin();
  run->keeper->SaveCheckpoint();
  run->Steps(1);
  run->keeper->SaveCheckpoint();
}

TEST(StateKeeperTest, TheNamedStateIsLoadedAndNotTheNewest) {
  KeptRun run;
  SaveTwice(&run);
  EXPECT_EQ(run.disk.files.count("step-000000000003.attempt-2.checkpoint"), 1u);
  TrainerParts next;
  next.disk = run.disk;
  next.options.resume = true;
  next.options.start = StateKey{2, 2};
  next.Make();
  ASSERT_OK_AND_ASSIGN(const auto loaded, next.keeper->Load());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->progress.step, 2);
}

TEST(StateKeeperTest, WithoutTheNamedStateNothingBegins) {
  KeptRun run;
  SaveTwice(&run);
  for (const StateKey& start :
       {StateKey{1, 2}, StateKey{2, 4}, StateKey{0, 1}}) {
    TrainerParts next;
    next.disk = run.disk;
    next.options.resume = true;
    next.options.start = start;
    // Not that one either.
    next.options.read_start = []() -> absl::StatusOr<std::string> {
      ADD_FAILURE();
      return absl::NotFoundError("");
    };
    next.Make();
    const auto none = next.keeper->Load();
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(FailureClassOf(none.status()), v1::CHECKPOINT_UNREACHABLE);
    EXPECT_THAT(std::string(none.status().message()), HasSubstr("of step "));
  }
  TrainerParts damaged;
  damaged.disk = run.disk;
  damaged.disk.files["step-000000000002.attempt-2.checkpoint"][100] ^= 1;
  damaged.options.resume = true;
  damaged.options.start = StateKey{2, 2};
  damaged.Make();
  EXPECT_EQ(FailureClassOf(damaged.keeper->Load().status()),
            v1::CHECKPOINT_DAMAGED);
}

TEST(StateKeeperTest, OtherSamplesAreNotGoneOnWith) {
  KeptRun run;
  run.Begin();
  ASSERT_OK_AND_ASSIGN(TrainingState state, run.keeper->Capture());
  state.data_digest = "another";
  ASSERT_OK_AND_ASSIGN(const std::string contents, CheckpointContents(state));
  TrainerParts next;
  next.disk.files["step-000000000002.checkpoint"] = contents;
  next.options.resume = true;
  next.Make();
  const auto loaded = next.keeper->Load();
  EXPECT_THAT(loaded, StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("the samples are not those")));
}

TEST(StateKeeperTest, AFullDiskIsOneIncidentUntilItWorksAgain) {
  KeptRun run;
  run.Begin();
  run.disk.full = true;
  run.keeper->SaveCheckpoint();
  run.keeper->SaveCheckpoint();
  ASSERT_THAT(run.events, SizeIs(1));
  EXPECT_EQ(run.events[0].incident().failure_class(), v1::DISK_FULL);
  EXPECT_THAT(run.log, SizeIs(2));
  run.disk.full = false;
  run.keeper->SaveCheckpoint();
  run.disk.full = true;
  run.keeper->SaveCheckpoint();
  ASSERT_THAT(run.events, SizeIs(3));
  EXPECT_TRUE(run.events[1].has_checkpoint());
  EXPECT_TRUE(run.events[2].has_incident());
}

TEST(StateKeeperTest, SnapshotsWaitForStepsAndForTheirCost) {
  KeptRun run;
  run.options.snapshot_every_steps = 2;
  run.Begin();
  const absl::Time now = SteadyNow();
  EXPECT_TRUE(run.keeper->SnapshotDue(now));
  // The clock says that saving took an hour.
  run.keeper->SaveSnapshot(now - absl::Hours(1));
  ASSERT_THAT(run.events, SizeIs(1));
  EXPECT_TRUE(run.events[0].checkpoint().snapshot());
  run.Steps(1);
  EXPECT_FALSE(run.keeper->SnapshotDue(now + absl::Hours(30)));
  run.Steps(1);
  EXPECT_TRUE(run.keeper->SnapshotDue(now + absl::Hours(30)));
  EXPECT_FALSE(run.keeper->SnapshotDue(now + absl::Hours(20)));
}

TEST(StateKeeperTest, WithoutAnIntervalNoSnapshotIsDue) {
  KeptRun run;
  run.Begin();
  EXPECT_FALSE(run.keeper->SnapshotDue(absl::InfiniteFuture()));
}

TEST(StateKeeperTest, TheEarlyStageIsExportedForOtherJobs) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_objective()->mutable_early()->set_steps(2);
  KeptRun run(spec);
  std::string exported;
  run.options.export_early_stage = [&](const std::string& contents) {
    exported = contents;
    return absl::OkStatus();
  };
  run.Begin();
  ASSERT_OK(run.keeper->ExportEarlyStage());

  TrainerParts next(spec);
  next.options.read_start = [&]() -> absl::StatusOr<std::string> {
    return exported;
  };
  next.Make();
  ASSERT_OK_AND_ASSIGN(const auto loaded, next.keeper->Load());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->progress.step, 2);
  EXPECT_EQ(loaded->fingerprint, next.keeper->fingerprint());

  v1::JobSpec other = spec;
  other.mutable_training()->set_seed(8);
  TrainerParts stranger(other);
  stranger.options.read_start = next.options.read_start;
  stranger.Make();
  EXPECT_THAT(stranger.keeper->Load(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace comera::trainer
