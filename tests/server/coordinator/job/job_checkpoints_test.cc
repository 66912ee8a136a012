// Tests which checkpoints a job names, and who is said to hold them.
#include "server/coordinator/job/job_checkpoints.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kDisk = v1::HeldCheckpoint::DISK;
constexpr auto kMemory = v1::HeldCheckpoint::MEMORY;
constexpr auto kDurable = v1::HeldCheckpoint::DURABLE;

v1::HeldCheckpoint Held(int64_t step, v1::HeldCheckpoint::Place place,
                        int64_t attempt = 1) {
  v1::HeldCheckpoint held;
  held.set_step(step);
  held.set_place(place);
  held.set_attempt(attempt);
  return held;
}

class JobCheckpointsTest : public ::testing::Test {
 protected:
  JobCheckpointsTest() {
    job_.set_name("jobs/a");
    job_.mutable_spec()->mutable_checkpoint()->set_keep(2);
  }

  void Save(int64_t step, int64_t attempt = 1) {
    v1::CheckpointSaved saved;
    saved.set_step(step);
    RecordSaved(saved, attempt, "w1", absl::UnixEpoch(), &job_);
  }
  bool Report(const std::string& worker, std::vector<v1::HeldCheckpoint> held,
              std::vector<v1::HeldCheckpoint> no_longer_durable = {}) {
    return UpdateHeld(
        {worker, std::move(held), std::move(no_longer_durable), {}}, over_,
        &job_);
  }
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (const auto& named : job_.checkpoints()) steps.push_back(named.step());
    return steps;
  }

  v1::Job job_;
  bool over_ = false;
};

TEST_F(JobCheckpointsTest, NamesWhatIsKeptAndWhoHasIt) {
  for (int step : {10, 20, 30}) Save(step);
  EXPECT_THAT(Steps(), ElementsAre(20, 30));
  EXPECT_EQ(job_.checkpoints(1).name(), "jobs/a/checkpoints/30");
  EXPECT_EQ(job_.checkpoints(1).attempt(), 1);
  EXPECT_TRUE(Report("w2", {Held(30, kMemory)}));
  EXPECT_FALSE(Report("w2", {Held(30, kMemory)}));
  EXPECT_THAT(job_.checkpoints(1).workers(), ElementsAre("w1", "w2"));
  // The first worker's disk is lost; only the copies elsewhere remain.
  EXPECT_TRUE(Report("w1", {}));
  EXPECT_THAT(Steps(), ElementsAre(30));
}

TEST_F(JobCheckpointsTest, TheNewestStaysNamedUntilANewerOneIsHeld) {
  Save(10);
  Save(20);
  EXPECT_TRUE(Report("w1", {}));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  EXPECT_THAT(job_.checkpoints(1).workers(), IsEmpty());
  // An older one does not replace it.
  EXPECT_TRUE(Report("w2", {Held(10, kMemory)}));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  Save(30);
  Report("w1", {Held(30, kDisk)});
  EXPECT_THAT(Steps(), ElementsAre(30));
}

TEST_F(JobCheckpointsTest, AJobWhoseStatesAreOverKeepsOnlyWhatExists) {
  Save(10);
  job_.set_state(v1::CANCELLED);
  over_ = true;
  EXPECT_TRUE(Report("w1", {}));
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(JobCheckpointsTest,
       AnEndedJobThatMayGoOnKeepsWhatTheStoreIsNotListedFor) {
  Save(10);
  Report("w1", {Held(10, kDurable)});
  job_.set_state(v1::FAILED);
  // All workers were restarted, and report before they have listed the store.
  EXPECT_TRUE(Report("w1", {}, {Held(10, kDurable)}));
  EXPECT_THAT(Steps(), ElementsAre(10));
  EXPECT_TRUE(Report("w1", {Held(10, kDurable)}));
  EXPECT_TRUE(job_.checkpoints(0).durable());
}

TEST_F(JobCheckpointsTest, TheStatesOfASweepsJobAreOverWithIt) {
  job_.set_state(v1::CANCELLED);
  job_.mutable_end_time()->set_seconds(100);
  const absl::Time now = absl::FromUnixSeconds(101);
  EXPECT_FALSE(AreStatesOver(job_, absl::Hours(1), now));
  job_.set_sweep("sweeps/s");
  EXPECT_TRUE(AreStatesOver(job_, absl::Hours(1), now));
  job_.set_state(v1::RUNNING);
  EXPECT_FALSE(AreStatesOver(job_, absl::Hours(1), now));
}

TEST_F(JobCheckpointsTest, DurableIsWhatWorkersLastSaid) {
  Save(10);
  EXPECT_TRUE(Report("w1", {Held(10, kDurable)}));
  EXPECT_TRUE(job_.checkpoints(0).durable());
  EXPECT_TRUE(Report("w1", {}, {Held(10, kDurable)}));
  ASSERT_THAT(Steps(), SizeIs(1));
  EXPECT_FALSE(job_.checkpoints(0).durable());
  // What the coordinator keeps itself is there whatever workers say.
  job_.mutable_checkpoints(0)->mutable_file()->set_path("state");
  job_.mutable_checkpoints(0)->set_durable(true);
  EXPECT_FALSE(Report("w1", {}, {Held(10, kDurable)}));
}

TEST_F(JobCheckpointsTest, WhatCannotBeFetchedIsNamedButNotDurable) {
  for (int step : {10, 20}) Save(step);
  Report("w1", {Held(10, kDurable), Held(20, kDisk)});
  HeldReport report;
  report.worker = "w1";
  report.held = {Held(20, kDisk)};
  report.unreachable = {Held(10, kDurable)};
  EXPECT_TRUE(UpdateHeld(report, over_, &job_));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  EXPECT_FALSE(job_.checkpoints(0).durable());
  Report("w1", {Held(10, kDurable), Held(20, kDisk)});
  EXPECT_TRUE(job_.checkpoints(0).durable());
}

TEST_F(JobCheckpointsTest, TheStoreKeepsTheNewestOnly) {
  for (int step : {10, 20, 30}) {
    Save(step);
    Report("w1", {Held(step, kDurable), Held(step, kDisk)});
  }
  // The first one is gone from the store, and from the worker's disk.
  EXPECT_THAT(Steps(), ElementsAre(20, 30));
}

// Workers go on listing for a while what one of them has deleted.
TEST_F(JobCheckpointsTest, WhatIsListedBeyondWhatIsKeptChangesNothing) {
  for (int step : {10, 20, 30}) {
    Save(step);
    Report("w2", {Held(10, kMemory), Held(step, kDurable)});
  }
  ASSERT_THAT(Steps(), ElementsAre(10, 20, 30));
  const std::vector<v1::HeldCheckpoint> all = {
      Held(10, kDurable), Held(20, kDurable), Held(30, kDurable)};
  EXPECT_FALSE(Report("w3", all));
  EXPECT_FALSE(job_.checkpoints(0).durable());
}

TEST_F(JobCheckpointsTest, OnlyForAnnouncedStatesDoOthersGo) {
  job_.set_attempt(1);
  Save(20);
  AttemptStarts starts;
  const auto expired = [&](const std::vector<v1::HeldCheckpoint>& all) {
    std::vector<int64_t> steps;
    for (const v1::HeldCheckpoint& held : ExpiredStates(
             all, all, TrainingLineage(&starts), job_, /*over=*/false)) {
      steps.push_back(held.step());
    }
    return steps;
  };
  std::vector<v1::HeldCheckpoint> all = {Held(10, kDurable), Held(20, kDurable),
                                         Held(800, kDurable),
                                         Held(900, kDurable, 0)};
  EXPECT_THAT(expired(all), IsEmpty());
  // One state with and without its attempt is one.
  all.push_back(Held(20, kDurable, 0));
  EXPECT_THAT(expired(all), IsEmpty());
  Save(30);
  EXPECT_THAT(expired(all), IsEmpty());
  all.push_back(Held(30, kDurable));
  EXPECT_THAT(expired(all), ElementsAre(10));
}

TEST_F(JobCheckpointsTest, TheFileOfAnotherAttemptIsAnotherState) {
  Save(10, 2);
  EXPECT_TRUE(Report("w1", {Held(10, kDisk, 1)}));
  EXPECT_THAT(job_.checkpoints(0).workers(), IsEmpty());
  // An older worker does not know the attempt.
  EXPECT_TRUE(Report("w1", {Held(10, kDisk, 0)}));
  EXPECT_THAT(job_.checkpoints(0).workers(), ElementsAre("w1"));
  Report("w2", {Held(10, kMemory, 2)});
  Save(10, 3);
  EXPECT_THAT(job_.checkpoints(0).workers(), ElementsAre("w1"));
}

TEST_F(JobCheckpointsTest, AfterStartingOverLowStepsAreNewest) {
  Save(1000);
  Save(2000);
  AttemptStarts starts;
  AddStart(2, v1::TrainingStateKey(), &starts);
  DropStale(TrainingLineage(&starts), &job_);
  EXPECT_THAT(Steps(), IsEmpty());
  Save(10, 2);
  Save(20, 2);
  Save(30, 2);
  EXPECT_THAT(Steps(), ElementsAre(20, 30));
}

}  // namespace
}  // namespace comera::server
