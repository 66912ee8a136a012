// Tests where checkpoints are copied to and fetched from.
#include "server/coordinator/worker/checkpoint_peers.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CheckpointPeersTest : public ::testing::Test {
 protected:
  CheckpointPeersTest() {
    for (const char* id : {"w1", "w2", "w3"}) {
      v1::SynchronizeRequest request = parts_.Report(id);
      request.set_peer_address(std::string(id) + ":1");
      parts_.AddWorker(id).ApplyReport(request, parts_.now, absl::Seconds(10));
    }
  }

  // A job that has run on all workers.
  JobEntry& AddJob(const std::string& id) {
    return parts_.AddJob(id, 2, {"w1", "w2", "w3"});
  }
  // The job's member 0, which has begun, has saved a checkpoint.
  void Announce(int64_t step, int64_t attempt, JobEntry* entry) {
    v1::CheckpointSaved saved;
    saved.set_step(step);
    DropStale(entry->lineage(), &entry->mutable_job());
    RecordSaved(saved, attempt, "w1", parts_.now, &entry->mutable_job());
  }

  // Worker `id`, which was told to keep the job's states, reports that it holds
  // the one of this step.
  v1::SynchronizeResponse Hold(
      const std::string& id, const std::string& job, int64_t step,
      v1::HeldCheckpoint::Place place = v1::HeldCheckpoint::MEMORY,
      int64_t attempt = 0) {
    return HoldAt({place}, id, job, step, attempt);
  }
  v1::SynchronizeResponse HoldAt(
      const std::vector<v1::HeldCheckpoint::Place>& places,
      const std::string& id, const std::string& job, int64_t step,
      int64_t attempt = 0) {
    v1::SynchronizeRequest request = parts_.Report(id);
    request.set_peer_address(id + ":1");
    for (const v1::HeldCheckpoint::Place place : places) {
      v1::HeldCheckpoint* held = request.add_checkpoints();
      held->set_job(job);
      held->set_attempt(attempt);
      held->set_step(step);
      held->set_place(place);
    }
    v1::SynchronizeResponse response;
    Operation op(parts_.now, &parts_.effects);
    if (JobEntry* entry = parts_.jobs.Find(job)) entry->NoteKeeper(id, &op);
    parts_.peers.ApplyHeld(request, *parts_.workers.Find(id), &response, &op);
    return response;
  }

  void AssignTo(const JobEntry& entry, v1::MemberAssignment* assignment) {
    Operation op(parts_.now, &parts_.effects);
    parts_.peers.AssignPeers(entry, *parts_.workers.Find("w1"), assignment,
                             &op);
  }
  v1::MemberAssignment Assign(const JobEntry& entry, bool resume) {
    v1::MemberAssignment assignment;
    assignment.set_resume(resume);
    AssignTo(entry, &assignment);
    return assignment;
  }

  // Lets time pass while the worker reports that the store has the job's state.
  void List(const std::string& id, const std::string& job, int64_t step,
            absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Minutes(2)) {
      parts_.now += std::min(time, absl::Duration(absl::Minutes(2)));
      Hold(id, job, step, v1::HeldCheckpoint::DURABLE);
      Operation op(parts_.now, &parts_.effects);
      parts_.peers.ReviewStore(&op);
    }
  }

  CoordinatorParts parts_;
};

TEST_F(CheckpointPeersTest, SourcesAreReachableHoldersOfAResumedJob) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  Hold("w2", "jobs/a", 10);
  Hold("w3", "jobs/other", 10);
  EXPECT_THAT(Assign(entry, false).sources(), IsEmpty());
  ASSERT_THAT(Assign(entry, true).sources(), SizeIs(1));
  EXPECT_EQ(Assign(entry, true).sources(0).worker(), "w2");
  parts_.workers.Find("w2")->MarkLost();
  EXPECT_THAT(Assign(entry, true).sources(), IsEmpty());
}

TEST_F(CheckpointPeersTest, ReplicasAreAsManyOthersAsTheJobWants) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  entry.mutable_job().mutable_spec()->mutable_checkpoint()->set_replicas(5);
  EXPECT_THAT(Assign(entry, false).replicas(), SizeIs(2));
  entry.mutable_job().mutable_spec()->mutable_checkpoint()->set_replicas(1);
  EXPECT_THAT(Assign(entry, false).replicas(), SizeIs(1));
}

TEST_F(CheckpointPeersTest, WorkersNeedNotKeepTheStatesOfEndedJobs) {
  JobEntry& entry = AddJob("a");
  EXPECT_THAT(Hold("w2", "jobs/a", 10).ended_jobs(), IsEmpty());
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::SUCCEEDED, "", &op);
  EXPECT_THAT(Hold("w2", "jobs/a", 10).ended_jobs(), ElementsAre("jobs/a"));
}

TEST_F(CheckpointPeersTest, WhatMayBeResumedKeepsItsStatesForAWhile) {
  JobEntry& entry = AddJob("a");
  const std::vector<v1::HeldCheckpoint::Place> both = {
      v1::HeldCheckpoint::DISK, v1::HeldCheckpoint::DURABLE};
  for (const v1::JobState state : {v1::FAILED, v1::CANCELLED}) {
    Operation op(parts_.now, &parts_.effects);
    entry.End(state, "", &op);
    parts_.now += parts_.options.keep_checkpoints - absl::Seconds(1);
    auto told = HoldAt(both, "w2", "jobs/a", 10);
    EXPECT_THAT(told.ended_jobs(), IsEmpty());
    EXPECT_THAT(told.expired(), IsEmpty());
    parts_.now += absl::Seconds(1);
    told = HoldAt(both, "w2", "jobs/a", 10);
    EXPECT_THAT(told.ended_jobs(), ElementsAre("jobs/a"));
    EXPECT_THAT(told.expired(), SizeIs(1));
  }
  // Another job is to begin with one of them.
  JobEntry& next = parts_.AddJob("b");
  Operation op(parts_.now, &parts_.effects);
  next.mutable_job().mutable_spec()->mutable_start_from()->set_checkpoint(
      "jobs/a/checkpoints/10");
  next.SetState(v1::QUEUED, "", &op);
  EXPECT_THAT(Hold("w2", "jobs/a", 10).ended_jobs(), IsEmpty());
}

TEST_F(CheckpointPeersTest, AnEndedJobsCopiesGoOnceADiskHasTheirStates) {
  JobEntry& entry = AddJob("a");
  Announce(10, 1, &entry);
  Hold("w1", "jobs/a", 10, v1::HeldCheckpoint::DISK, /*attempt=*/1);
  const auto copy_goes = [&](int64_t step) {
    return Hold("w2", "jobs/a", step, v1::HeldCheckpoint::MEMORY, 1)
               .ended_jobs_size() > 0;
  };
  EXPECT_FALSE(copy_goes(10));
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::CANCELLED, "", &op);
  EXPECT_TRUE(copy_goes(10));
  EXPECT_TRUE(copy_goes(5));
  // The disk's own worker keeps what it has.
  EXPECT_THAT(
      Hold("w1", "jobs/a", 10, v1::HeldCheckpoint::DISK, 1).ended_jobs(),
      IsEmpty());
  // The only one of that step, and all that is left.
  EXPECT_FALSE(copy_goes(20));
  parts_.workers.Find("w1")->MarkLost();
  EXPECT_FALSE(copy_goes(10));
  Hold("w3", "jobs/a", 10, v1::HeldCheckpoint::DURABLE, 1);
  EXPECT_TRUE(copy_goes(10));
  // Clients may still start from the older one that is named.
  v1::Checkpoint* named = entry.mutable_job().add_checkpoints();
  named->set_step(5);
  named->set_attempt(1);
  EXPECT_FALSE(copy_goes(5));
}

TEST_F(CheckpointPeersTest, WorkersDoNotLeaveAnEndedJobsStatesToEachOther) {
  JobEntry& entry = AddJob("a");
  Announce(20, 1, &entry);
  // The job has run on both, and each has copies for the other.
  const auto goes = [&](const std::string& id, int64_t on_disk, int64_t copy) {
    v1::SynchronizeRequest request = parts_.Report(id);
    request.set_peer_address(id + ":1");
    for (const auto& [step, place] :
         {std::make_pair(on_disk, v1::HeldCheckpoint::DISK),
          std::make_pair(copy, v1::HeldCheckpoint::MEMORY)}) {
      v1::HeldCheckpoint* held = request.add_checkpoints();
      held->set_job("jobs/a");
      held->set_attempt(1);
      held->set_step(step);
      held->set_place(place);
    }
    v1::SynchronizeResponse response;
    Operation op(parts_.now, &parts_.effects);
    parts_.peers.ApplyHeld(request, *parts_.workers.Find(id), &response, &op);
    return response.ended_jobs_size() > 0;
  };
  goes("w1", 10, 20);
  goes("w2", 20, 10);
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::FAILED, "", &op);
  EXPECT_TRUE(goes("w1", 10, 20));
  EXPECT_FALSE(goes("w2", 20, 10));
  EXPECT_FALSE(goes("w1", 20, 20));
}

TEST_F(CheckpointPeersTest, StatesOfASweepsJobGoAtItsEndUnlessAJobStartsThere) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().set_sweep("sweeps/s");
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::CANCELLED, "", &op);
  const auto goes = [&] {
    return Hold("w1", "jobs/a", 10, v1::HeldCheckpoint::DISK)
               .ended_jobs_size() > 0;
  };
  EXPECT_TRUE(goes());
  JobEntry& next = parts_.AddJob("b");
  next.mutable_job().mutable_spec()->mutable_start_from()->set_checkpoint(
      "jobs/a/checkpoints/10");
  next.SetState(v1::QUEUED, "", &op);
  EXPECT_FALSE(goes());
}

TEST_F(CheckpointPeersTest, StatesOfAForgottenJobMayGo) {
  EXPECT_THAT(Hold("w2", "jobs/newer", 10).ended_jobs(), IsEmpty());
  std::vector<Document> documents;
  parts_.peers.ForgetJob("jobs/a", &documents);
  const auto told =
      HoldAt({v1::HeldCheckpoint::DISK, v1::HeldCheckpoint::DURABLE}, "w2",
             "jobs/a", 10);
  EXPECT_THAT(told.ended_jobs(), ElementsAre("jobs/a"));
  ASSERT_THAT(told.expired(), SizeIs(1));
  EXPECT_EQ(told.expired(0).job(), "jobs/a");
  // What is found only after a restart goes as well; that of a job of which
  // this store was never told may be of a newer one.
  CoordinatorParts later;
  WorkerState& worker = later.AddWorker("w2");
  const auto count_expired = [&](const std::string& job) {
    v1::SynchronizeRequest request = later.Report("w2");
    v1::HeldCheckpoint* held = request.add_checkpoints();
    held->set_job(job);
    held->set_place(v1::HeldCheckpoint::DURABLE);
    v1::SynchronizeResponse response;
    Operation op(later.now, &later.effects);
    later.peers.ApplyHeld(request, worker, &response, &op);
    return response.expired_size();
  };
  EXPECT_EQ(count_expired("jobs/a"), 0);
  later.peers.LoadForgotten(documents);
  EXPECT_EQ(count_expired("jobs/a"), 1);
  EXPECT_EQ(count_expired("jobs/newer"), 0);
}

TEST_F(CheckpointPeersTest, AnotherJobsStateComesFromThoseThatHoldIt) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  parts_.AddJob("b");
  Hold("w2", "jobs/b", 10);
  Hold("w3", "jobs/b", 20);
  v1::MemberAssignment assignment;
  assignment.set_start_job("jobs/b");
  assignment.mutable_start()->set_step(10);
  AssignTo(entry, &assignment);
  ASSERT_THAT(assignment.sources(), SizeIs(1));
  EXPECT_EQ(assignment.sources(0).worker(), "w2");
}

TEST_F(CheckpointPeersTest, SourcesHoldTheVeryStateToStartFrom) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  Hold("w2", "jobs/a", 10);
  Hold("w3", "jobs/a", 20);
  v1::MemberAssignment assignment;
  assignment.set_resume(true);
  assignment.mutable_start()->set_attempt(1);
  assignment.mutable_start()->set_step(20);
  AssignTo(entry, &assignment);
  ASSERT_THAT(assignment.sources(), SizeIs(1));
  EXPECT_EQ(assignment.sources(0).worker(), "w3");
}

TEST_F(CheckpointPeersTest, KnowsWhoHoldsStatesOfAJob) {
  AddJob("a");
  EXPECT_THAT(parts_.peers.Holders("jobs/a"), IsEmpty());
  Hold("w2", "jobs/a", 10);
  EXPECT_THAT(parts_.peers.Holders("jobs/a"),
              ElementsAre(parts_.workers.Find("w2")));
  Hold("w2", "jobs/other", 10);
  EXPECT_THAT(parts_.peers.Holders("jobs/a"), IsEmpty());
}

// All workers list the store, and what one of them is answered must not depend
// on how many they are.
TEST_F(CheckpointPeersTest, WhoListsTheStoreHoldsNothing) {
  AddJob("a");
  for (const char* id : {"w1", "w2", "w3"}) {
    Hold(id, "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  }
  EXPECT_THAT(parts_.peers.Holders("jobs/a"), IsEmpty());
  ASSERT_THAT(parts_.peers.Stored(*parts_.jobs.Find("jobs/a")), SizeIs(1));
  EXPECT_EQ(parts_.peers.Stored(*parts_.jobs.Find("jobs/a"))[0].step(), 10);
}

TEST_F(CheckpointPeersTest, OneWorkerDeletesAState) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().add_checkpoints()->set_step(10);
  const auto told = [&](const std::string& id) {
    const auto answer = Hold(id, "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
    EXPECT_THAT(answer.ended_jobs(), IsEmpty());
    return answer.expired_size() == 1;
  };
  EXPECT_FALSE(told("w1") || told("w2") || told("w3"));
  EXPECT_THAT(parts_.peers.Stored(*parts_.jobs.Find("jobs/a")), SizeIs(1));
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::SUCCEEDED, "", &op);
  EXPECT_TRUE(told("w2"));
  // It is as good as gone, whatever others listed before.
  EXPECT_FALSE(told("w1") || told("w3"));
  EXPECT_THAT(parts_.peers.Stored(*parts_.jobs.Find("jobs/a")), IsEmpty());
  EXPECT_THAT(entry.job().checkpoints(), IsEmpty());
  // The answer was lost.
  EXPECT_TRUE(told("w2"));
  // It could not delete the state, and found it again.
  Hold("w2", "jobs/a", 20, v1::HeldCheckpoint::MEMORY);
  EXPECT_TRUE(told("w2"));
  EXPECT_FALSE(told("w1"));
  // It is gone itself.
  parts_.workers.Find("w2")->MarkLost();
  EXPECT_TRUE(told("w1"));
  EXPECT_FALSE(told("w3"));
  parts_.now += StoreListings::kDeletionTakes + absl::Seconds(1);
  EXPECT_TRUE(told("w3"));
  EXPECT_FALSE(told("w1"));
}

TEST_F(CheckpointPeersTest, AStateLeavesTheStoreWhenNobodySaysThatItIsThere) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().add_checkpoints()->set_step(10);
  const auto durable = [&] { return entry.job().checkpoints(0).durable(); };
  Hold("w2", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  Hold("w3", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  EXPECT_TRUE(durable());
  Hold("w2", "jobs/a", 20, v1::HeldCheckpoint::DURABLE);
  EXPECT_TRUE(durable());
  // A lost worker's word still counts, for the store is not on its machine.
  parts_.workers.Find("w3")->MarkLost();
  Hold("w2", "jobs/a", 20, v1::HeldCheckpoint::DURABLE);
  EXPECT_TRUE(durable());
  Hold("w3", "jobs/other", 10, v1::HeldCheckpoint::DURABLE);
  EXPECT_FALSE(durable());
}

TEST_F(CheckpointPeersTest, ANewerListingEndsTheWordOfALostWorker) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().add_checkpoints()->set_step(10);
  Hold("w2", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  Hold("w3", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  parts_.workers.Find("w3")->MarkLost();
  // It was there, and is there no more.
  Hold("w2", "jobs/a", 20, v1::HeldCheckpoint::DURABLE);
  EXPECT_FALSE(entry.job().checkpoints(0).durable());
  EXPECT_THAT(parts_.peers.Stored(*parts_.jobs.Find("jobs/a")), SizeIs(1));
  // Back from a broken link, it has not listed the store again.
  Hold("w3", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  EXPECT_TRUE(entry.job().checkpoints(0).durable());
}

TEST_F(CheckpointPeersTest,
       ALostWorkersWordEndsOnceAnotherMustHaveListedSince) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().add_checkpoints()->set_step(10);
  const auto durable = [&] { return entry.job().checkpoints(0).durable(); };
  // w1 has listed the store before w3 stored the state.
  Hold("w1", "jobs/b", 1, v1::HeldCheckpoint::DURABLE);
  Hold("w3", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  parts_.workers.Find("w3")->MarkLost();
  parts_.peers.Forget("w3");
  List("w1", "jobs/b", 1, StoreListings::kWordLasts);
  EXPECT_TRUE(durable());
  // w2 has no store, and says nothing; w1 was silent for a while.
  Hold("w2", "jobs/a", 5);
  parts_.now += absl::Minutes(6);
  List("w1", "jobs/b", 1, StoreListings::kWordLasts);
  EXPECT_TRUE(durable());
  EXPECT_THAT(parts_.peers.Stored(*parts_.jobs.Find("jobs/a")), SizeIs(1));
  List("w1", "jobs/b", 1, absl::Minutes(4));
  EXPECT_FALSE(durable());
  EXPECT_THAT(parts_.peers.Stored(*parts_.jobs.Find("jobs/a")), IsEmpty());
}

TEST_F(CheckpointPeersTest, WhatARestartedWorkerDoesNotFindAgainIsGone) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().add_checkpoints()->set_step(10);
  Hold("w2", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  parts_.workers.Find("w2")->ReplaceIncarnation("i2");
  List("w2", "jobs/b", 1, StoreListings::kWordLasts - absl::Minutes(10));
  EXPECT_TRUE(entry.job().checkpoints(0).durable());
  List("w2", "jobs/b", 1, absl::Minutes(14));
  EXPECT_FALSE(entry.job().checkpoints(0).durable());
}

TEST_F(CheckpointPeersTest, OnlyTheCoordinatorExpiresStatesOfTheStore) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().set_attempt(4);
  entry.mutable_job().mutable_spec()->mutable_checkpoint()->set_keep(2);
  const auto announce = [&](int64_t attempt, int64_t step) {
    Announce(step, attempt, &entry);
  };
  // The steps, with their attempts, that the answer to w2 deletes.
  const auto expired = [&](const std::vector<std::pair<int, int>>& stored) {
    v1::SynchronizeRequest request = parts_.Report("w2");
    for (const auto& [attempt, step] : stored) {
      v1::HeldCheckpoint* held = request.add_checkpoints();
      held->set_job("jobs/a");
      held->set_attempt(attempt);
      held->set_step(step);
      held->set_place(v1::HeldCheckpoint::DURABLE);
    }
    v1::SynchronizeResponse response;
    Operation op(parts_.now, &parts_.effects);
    parts_.peers.ApplyHeld(request, *parts_.workers.Find("w2"), &response, &op);
    std::vector<std::pair<int, int>> told;
    for (const v1::HeldCheckpoint& held : response.expired()) {
      told.emplace_back(held.attempt(), held.step());
    }
    return told;
  };
  using Steps = std::vector<std::pair<int, int>>;
  announce(1, 100);
  announce(1, 200);
  EXPECT_EQ(expired({{1, 100}, {1, 200}}), Steps());
  // Nobody has announced it.
  EXPECT_EQ(expired({{1, 100}, {1, 200}, {1, 300}}), Steps());
  announce(1, 300);
  EXPECT_EQ(expired({{1, 100}, {1, 200}, {1, 300}}), Steps({{1, 100}}));
  // What was cut off saves late: attempt 4 began before.
  v1::TrainingStateKey start;
  start.set_attempt(1);
  start.set_step(200);
  entry.mutable_job().set_attempt(3);
  entry.RecordStart(start);
  entry.mutable_job().set_attempt(4);
  EXPECT_EQ(expired({{1, 200}, {3, 900}}), Steps());
  announce(4, 250);
  EXPECT_EQ(expired({{1, 200}, {3, 900}, {4, 250}}), Steps({{3, 900}}));
  // The job began anew, and its low steps are the ones that count.
  entry.RecordStart(v1::TrainingStateKey());
  entry.mutable_job().set_attempt(5);
  announce(5, 10);
  announce(5, 20);
  EXPECT_EQ(expired({{4, 250}, {5, 10}, {5, 20}}), Steps({{4, 250}}));
  announce(5, 30);
  EXPECT_EQ(expired({{5, 10}, {5, 20}, {6, 5}, {5, 30}}), Steps({{5, 10}}));
  // Another worker says that there is a newer one. Whoever deletes the others
  // must have seen it.
  announce(5, 40);
  Hold("w3", "jobs/a", 40, v1::HeldCheckpoint::DURABLE, /*attempt=*/5);
  EXPECT_EQ(expired({{5, 10}, {5, 20}, {5, 30}}), Steps({{5, 10}}));
  EXPECT_EQ(expired({{5, 20}, {5, 30}, {5, 40}}), Steps({{5, 20}}));
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::SUCCEEDED, "", &op);
  EXPECT_EQ(expired({{5, 20}, {5, 30}}), Steps({{5, 20}, {5, 30}}));
}

TEST_F(CheckpointPeersTest, ARestartedWorkerTakesNothingOutOfTheStore) {
  JobEntry& entry = AddJob("a");
  entry.mutable_job().add_checkpoints()->set_step(10);
  Hold("w2", "jobs/a", 10, v1::HeldCheckpoint::DURABLE);
  parts_.workers.Find("w2")->ReplaceIncarnation("i2");
  Hold("w2", "jobs/a", 10, v1::HeldCheckpoint::DISK);
  EXPECT_TRUE(entry.job().checkpoints(0).durable());
}

TEST_F(CheckpointPeersTest, ChangedPeersAreAnnouncedOnceInAWhile) {
  parts_.StartJob("a", "w1");
  const auto announced = [&](absl::Duration after) {
    Operation op(parts_.now + after, &parts_.effects);
    parts_.peers.Announce(&op);
    return op.changed_workers();
  };
  EXPECT_THAT(announced(absl::ZeroDuration()), IsEmpty());
  parts_.peers.MarkPeersChanged();
  EXPECT_THAT(announced(absl::ZeroDuration()), ElementsAre("w1"));
  parts_.peers.MarkPeersChanged();
  EXPECT_THAT(announced(absl::Seconds(1)), IsEmpty());
  EXPECT_THAT(announced(absl::Seconds(2)), ElementsAre("w1"));
}

}  // namespace
}  // namespace comera::server
