// Traces of the coordinator's state machine: what workers report, and when they
// are lost.
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "server/coordinator/coordinator.h"
#include "server/rpc/proto_time.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(CoordinatorTest, RestartedWorkerLosesItsRanks) {
  const std::string name = RunningJob();
  Worker again{"w1", "i2"};
  ASSERT_OK(h_.Sync(again));
  EXPECT_EQ(h_.job(name).attempt(), 2);
  EXPECT_EQ(h_.job(name).incidents(0).failure_class(), v1::NODE_LOST);
  // The old daemon must not get its members back.
  EXPECT_THAT(h_.Sync(w1_), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(h_.job(name).attempt(), 2);
}

TEST_F(CoordinatorTest, SilentWorkerIsLostAfterPatienceOnly) {
  const std::string name = RunningJob();
  h_.Advance(absl::Seconds(59));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  h_.Advance(absl::Seconds(2));
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_THAT(h_.reasons[name], HasSubstr("waiting for 2"));
  EXPECT_EQ(h_.job(name).incidents(0).failure_class(), v1::NODE_LOST);
  // It comes back with one old member: that holds its slot until it ends.
  w1_.members[0].set_phase(kExited);
  v1::SynchronizeResponse answer = *h_.Sync(w1_);
  EXPECT_THAT(answer.desired(), SizeIs(0));
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  for (v1::MemberStatus& rank : w1_.members) rank.set_phase(kExited);
  answer = *h_.Sync(w1_);
  EXPECT_THAT(answer.forget(), SizeIs(2));
  EXPECT_EQ(h_.job(name).attempt(), 2);
  EXPECT_EQ(h_.job(name).state(), v1::STARTING);
}

TEST_F(CoordinatorTest, StaleAttemptChangesNothing) {
  const std::string name = RunningJob();
  Worker again{"w1", "i2"};
  h_.Follow(again, kRunning);
  ASSERT_EQ(h_.job(name).attempt(), 2);
  ASSERT_EQ(h_.job(name).state(), v1::RUNNING);
  const size_t events = h_.events.size();
  again.members.push_back(Result(name, 1));
  again.members.push_back(Failed(name, 1, 1, v1::USER, h_.now));
  again.reports = {Metrics(name, 1, 7, 70)};
  v1::SynchronizeResponse answer = *h_.Sync(again);
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.events.size(), events);
  EXPECT_THAT(answer.forget(), SizeIs(2));
  EXPECT_EQ(answer.report_acks(0).number(), 7);
}

TEST_F(CoordinatorTest, EachReportIsTakenOnce) {
  const std::string name = RunningJob();
  w1_.reports = {Metrics(name, 1, 1, 10), Metrics(name, 1, 2, 20)};
  EXPECT_EQ(h_.Sync(w1_)->report_acks(0).number(), 2);
  const size_t events = h_.events.size();
  EXPECT_EQ(h_.job(name).progress().step(), 20);
  // Both are repeated.
  EXPECT_EQ(h_.Sync(w1_)->report_acks(0).number(), 2);
  EXPECT_EQ(h_.events.size(), events);
  h_.Restart();
  w1_.reports.push_back(Metrics(name, 1, 3, 30));
  w1_.reports.push_back(Metrics(name, 1, 4, 40));
  EXPECT_EQ(h_.Sync(w1_)->report_acks(0).number(), 4);
  EXPECT_EQ(h_.events.size(), events + 2);
  EXPECT_EQ(h_.job(name).progress().step(), 40);
  for (size_t i = 1; i < h_.events.size(); ++i) {
    EXPECT_EQ(h_.events[i].sequence(), h_.events[i - 1].sequence() + 1);
  }
}

TEST_F(CoordinatorTest, RunningJobReattachesAfterRestart) {
  const std::string name = RunningJob();
  h_.Restart();
  h_.Advance(absl::Seconds(30));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  w1_.members[0].set_step(50);
  v1::SynchronizeResponse answer = *h_.Sync(w1_);
  ASSERT_THAT(answer.desired(), SizeIs(2));
  EXPECT_EQ(answer.desired(0).attempt(), 1);
  h_.Advance(absl::Seconds(50));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).attempt(), 1);
  w1_.members = {Result(name, 1), Status(name, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::SUCCEEDED);
}

TEST_F(CoordinatorTest, RestartGivesUpWorkersThatNeverReturn) {
  const std::string name = RunningJob();
  h_.Restart();
  h_.Advance(absl::Seconds(61));
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_EQ(h_.job(name).incidents(0).failure_class(), v1::NODE_LOST);
}

TEST_F(CoordinatorTest, RankThatNeverReportsIsLost) {
  const std::string name = h_.Submit(2);
  h_.Follow(w1_, kStarting);
  for (int i = 0; i < 32; ++i) {
    h_.Advance(absl::Seconds(10));
    for (v1::MemberStatus& member : w1_.members) {
      *member.mutable_silent() = ToProtoDuration(absl::Seconds(10 * (i + 1)));
    }
    ASSERT_OK(h_.Sync(w1_));
  }
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(0));
  w1_.members[0].set_phase(kExited);
  w1_.members[1].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).incidents(0).failure_class(), v1::RANK_LOST);
  EXPECT_THAT(h_.job(name).incidents(0).message(), HasSubstr("within 5m"));
}

TEST_F(CoordinatorTest, RankMissingFromReportsIsLostInTheEnd) {
  const std::string name = RunningJob();
  w1_.members.pop_back();
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  h_.Advance(absl::Seconds(11));
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(0));
}

TEST_F(CoordinatorTest, RendezvousReachesTheOtherWorkersOfTheGang) {
  w1_.slots = w2_.slots = 1;
  ASSERT_OK(h_.Sync(w1_));
  ASSERT_OK(h_.Sync(w2_));
  const std::string name = h_.Submit(2);
  ASSERT_OK(h_.Sync(w1_));
  ASSERT_OK(h_.Sync(w2_));
  v1::RendezvousEntry entry;
  entry.set_job(name);
  entry.set_attempt(1);
  entry.set_key("rank0");
  entry.set_value("10.0.0.1:99");
  w1_.rendezvous = {entry};
  const int64_t before = w2_.seen_version;
  EXPECT_THAT(h_.Sync(w1_)->rendezvous(), SizeIs(0));
  v1::SynchronizeResponse answer = *h_.Sync(w2_);
  ASSERT_THAT(answer.rendezvous(), SizeIs(1));
  EXPECT_EQ(answer.rendezvous(0).value(), "10.0.0.1:99");
  EXPECT_GT(answer.desired_version(), before);
  // Entries of another attempt or from outside the gang are not kept.
  w1_.rendezvous[0].set_attempt(2);
  Worker w3{"w3"};
  w3.rendezvous = {entry};
  ASSERT_OK(h_.Sync(w1_));
  ASSERT_OK(h_.Sync(w3));
  EXPECT_THAT(h_.Sync(w2_)->rendezvous(), SizeIs(1));
  // A restarted coordinator learns them again.
  h_.Restart();
  EXPECT_THAT(h_.Sync(w2_)->rendezvous(), SizeIs(0));
  w1_.rendezvous = {entry};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_THAT(h_.Sync(w2_)->rendezvous(), SizeIs(1));
}

TEST_F(CoordinatorTest, CallIsHeldUntilThereIsNews) {
  ASSERT_OK(h_.Sync(w1_));
  w1_.hold = absl::Seconds(20);
  EXPECT_THAT(h_.Sync(w1_), StatusIs(absl::StatusCode::kUnavailable));
  int64_t held = h_.last_call;
  const std::string name = h_.Submit(1);
  ASSERT_EQ(h_.replies.count(held), 1u);
  EXPECT_THAT(h_.replies.at(held)->desired(), SizeIs(1));
  const int64_t version = h_.replies.at(held)->desired_version();
  EXPECT_GT(version, w1_.seen_version);

  // Without news the call ends in time, and the worker does not count as lost.
  w1_.seen_version = version;
  w1_.members = {Status(name, 1, 0, kRunning)};
  w1_.hold = absl::Hours(1);
  EXPECT_THAT(h_.Sync(w1_), StatusIs(absl::StatusCode::kUnavailable));
  held = h_.last_call;
  h_.Advance(absl::Seconds(29));
  EXPECT_EQ(h_.replies.count(held), 0u);
  h_.Advance(absl::Seconds(2));
  ASSERT_EQ(h_.replies.count(held), 1u);
  EXPECT_EQ(h_.replies.at(held)->desired_version(), version);

  // A newer call replaces a held one; an abandoned one is forgotten.
  EXPECT_THAT(h_.Sync(w1_), StatusIs(absl::StatusCode::kUnavailable));
  held = h_.last_call;
  EXPECT_THAT(h_.Sync(w1_), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(h_.replies.count(held), 1u);
  h_.coordinator->Abandon(h_.last_call);
  h_.Submit(1);
  EXPECT_EQ(h_.replies.count(h_.last_call), 0u);
}

TEST_F(CoordinatorTest, AnUnfitSlotTakesARankOnceItIsFit) {
  w1_.unfit = {{1, "hot"}};
  h_.Sync(w1_).IgnoreError();
  const std::string name = h_.Submit(2);
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_EQ(h_.reasons[name], "waiting for 2 free CPU slots, 1 free, 1 unfit");
  w1_.unfit.clear();
  h_.Follow(w1_, kRunning);
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
}

TEST_F(CoordinatorTest, ASlotThatBecomesUnfitKeepsItsRank) {
  const std::string name = RunningJob();
  w1_.unfit = {{0, "hot"}, {1, "hot"}};
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(2));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
}

TEST_F(CoordinatorTest, WorkersTellOfTheirGpus) {
  w1_.gpus = {{0, "NVIDIA H200"}};
  w1_.unfit = {{0, "hot"}, {1, "broken"}};
  h_.Sync(w1_).IgnoreError();
  const auto workers = h_.coordinator->Workers(h_.now);
  ASSERT_THAT(workers, SizeIs(1));
  EXPECT_THAT(workers[0].gpus(), ElementsAre("NVIDIA H200"));
  EXPECT_THAT(workers[0].unfit_slots(),
              ElementsAre("slot 0 (NVIDIA H200 GPU-1): hot", "slot 1: broken"));
}

TEST_F(CoordinatorTest, MalformedReportsAreRefusedWithTheField) {
  Worker bad{"W 1"};
  EXPECT_THAT(h_.Sync(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("worker")));
  bad = Worker{"w1", ""};
  EXPECT_THAT(h_.Sync(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("incarnation")));
  bad = Worker{"w1"};
  bad.members = {Status("jobs/../x", 1, 0, kRunning)};
  EXPECT_THAT(h_.Sync(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("members[0].job")));
  bad.members = {Status("jobs/x", 0, 0, kRunning)};
  EXPECT_THAT(h_.Sync(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("members[0].attempt")));
  bad.members.clear();
  bad.unfit = {{0, std::string(5000, 'x')}};
  EXPECT_THAT(h_.Sync(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("slots.unfit")));
  bad.unfit.clear();
  bad.gpus = {{1, std::string(5000, 'x')}};
  EXPECT_THAT(h_.Sync(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("slots.gpu")));
  bad.gpus.clear();
  // Callers would send their tokens there.
  for (const char* address :
       {"unix:/tmp/socket", "unix:80", "dns:///host:80", "http://host:80",
        "host", "host:0", "ho st:80", "::1:80"}) {
    bad.peer_address = address;
    EXPECT_THAT(h_.Sync(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("peer_address")))
        << address;
  }
  for (const char* address : {"host.example:80", "10.0.0.1:1", "[::1]:80"}) {
    bad.peer_address = address;
    EXPECT_OK(h_.Sync(bad)) << address;
  }
  // Members that no job has are harmless.
  const std::string name = RunningJob();
  w1_.members.push_back(Status(name, 1, 2, kRunning));
  w1_.members.push_back(Status(name, 1, -5, kExited));
  EXPECT_OK(h_.Sync(w1_));
}

TEST_F(CoordinatorTest, AWorkerThatLeftIsForgottenButNotWhatWasDecided) {
  ASSERT_OK(h_.Sync(w1_));
  ASSERT_OK(h_.Sync(w2_));
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/w2");
  Effects effects;
  ASSERT_OK(h_.coordinator->Drain(drain, h_.now, &effects));
  h_.Advance(absl::Minutes(2));
  EXPECT_EQ(h_.coordinator->CountCluster(h_.now).workers.at("LOST"), 2);
  for (int hour = 0; hour < 25; ++hour) h_.Advance(absl::Hours(1));
  EXPECT_THAT(h_.coordinator->Workers(h_.now), SizeIs(0));
  EXPECT_EQ(h_.coordinator->CountCluster(h_.now).workers.at("LOST"), 0);
  ASSERT_OK(h_.Sync(w1_));
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_EQ(h_.coordinator->GetWorker("workers/w1", h_.now)->service(),
            v1::WorkerSummary::IN_SERVICE);
  EXPECT_EQ(h_.coordinator->GetWorker("workers/w2", h_.now)->service(),
            v1::WorkerSummary::DRAINED);
}

TEST_F(CoordinatorTest, AForgottenWorkerCanBeReturnedToService) {
  ASSERT_OK(h_.Sync(w2_));
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/w2");
  Effects effects;
  ASSERT_OK(h_.coordinator->Drain(drain, h_.now, &effects));
  for (int hour = 0; hour < 26; ++hour) h_.Advance(absl::Hours(1));
  ASSERT_THAT(h_.coordinator->Workers(h_.now), SizeIs(0));
  v1::ResumeWorkerRequest resume;
  resume.set_name("workers/w2");
  ASSERT_OK(h_.coordinator->ResumeWorker(resume, h_.now, &effects));
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_EQ(h_.coordinator->GetWorker("workers/w2", h_.now)->service(),
            v1::WorkerSummary::IN_SERVICE);
}

TEST_F(CoordinatorTest, AWorkerThatIsGoneIsForgottenOnRequest) {
  ASSERT_OK(h_.Sync(w1_));
  ASSERT_OK(h_.Sync(w2_));
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/w2");
  Effects effects;
  ASSERT_OK(h_.coordinator->Drain(drain, h_.now, &effects));
  v1::DeleteWorkerRequest request;
  request.set_name("workers/w2");
  EXPECT_THAT(h_.coordinator->DeleteWorker(request, h_.now, &effects),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is connected")));
  h_.Advance(absl::Minutes(2));
  effects = Effects();
  ASSERT_OK(h_.coordinator->DeleteWorker(request, h_.now, &effects));
  // The drain is forgotten, too, also by the next coordinator.
  ASSERT_THAT(effects.documents, SizeIs(1));
  EXPECT_EQ(effects.documents[0].name, "w2");
  EXPECT_FALSE(effects.documents[0].body.has_value());
  EXPECT_THAT(h_.coordinator->Workers(h_.now), SizeIs(1));
  EXPECT_THAT(h_.coordinator->DeleteWorker(request, h_.now, &effects),
              StatusIs(absl::StatusCode::kNotFound));
  request.set_name("w2");
  EXPECT_THAT(h_.coordinator->DeleteWorker(request, h_.now, &effects),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // It may come back, as a new one.
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_EQ(h_.coordinator->GetWorker("workers/w2", h_.now)->service(),
            v1::WorkerSummary::IN_SERVICE);
}

TEST_F(CoordinatorTest, AWorkerWithMembersIsNotForgottenBeforeTheyAreGivenUp) {
  ASSERT_OK(h_.Sync(w1_));
  const std::string job = h_.Submit(TestSpec(1));
  ASSERT_EQ(h_.job(job).state(), v1::STARTING);
  v1::DeleteWorkerRequest request;
  request.set_name("workers/w1");
  Effects effects;
  h_.Advance(absl::Seconds(30));
  EXPECT_THAT(h_.coordinator->DeleteWorker(request, h_.now, &effects),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(job)));
  h_.Advance(absl::Minutes(2));
  EXPECT_OK(h_.coordinator->DeleteWorker(request, h_.now, &effects));
  EXPECT_THAT(h_.coordinator->Workers(h_.now), SizeIs(0));
}

// The whole cluster comes back at once, as after a restart of the coordinator
// or a cut link: 2,000 workers of 8 slots with 4,000 members of 1,000 gangs,
// whose states lie on several of them, and in a store that all of them have
// listed, while 500 jobs wait.
TEST_F(CoordinatorTest, TwoThousandWorkersThatReturnAtOnceAreServedSoon) {
  constexpr int kWorkers = 2000, kJobs = 1000, kMembers = 4, kSlots = 8;
  std::vector<Worker> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.push_back(Worker{absl::StrCat("n", i)});
    workers[i].slots = kSlots;
    workers[i].host = workers[i].id;
    workers[i].peer_address = absl::StrCat(workers[i].id, ":1");
  }
  v1::JobSpec spec = TestSpec(kMembers);
  spec.mutable_checkpoint()->set_replicas(2);
  for (Worker& worker : workers) ASSERT_OK(h_.Sync(worker));
  std::vector<std::string> jobs;
  h_.paused = true;
  for (int i = 0; i < kJobs; ++i) jobs.push_back(h_.Submit(spec));
  h_.paused = false;
  h_.Schedule();
  std::map<std::string, int> numbers;
  for (int i = 0; i < kWorkers; ++i) numbers[workers[i].id] = i;
  for (const std::string& job : jobs) {
    const AttemptRecord& attempt = h_.stored.at(job).attempt();
    ASSERT_EQ(attempt.members_size(), kMembers);
    for (int32_t rank = 0; rank < kMembers; ++rank) {
      const MemberRecord& member = attempt.members(rank);
      Worker& worker = workers[numbers.at(member.worker())];
      worker.members.push_back(Status(job, 1, rank, kRunning, member.slot()));
      v1::HeldCheckpoint held;
      held.set_job(job);
      held.set_step(100);
      held.set_place(v1::HeldCheckpoint::DISK);
      worker.checkpoints.push_back(held);
      if (rank != 0) continue;
      v1::ProgressReport saved;
      saved.set_job(job);
      saved.set_attempt(1);
      saved.set_number(1);
      saved.mutable_event()->mutable_checkpoint()->set_step(90);
      worker.reports.push_back(saved);
    }
  }
  std::vector<v1::HeldCheckpoint> stored;
  for (const std::string& job : jobs) {
    v1::HeldCheckpoint& held = stored.emplace_back();
    held.set_job(job);
    held.set_attempt(1);
    held.set_step(90);
    held.set_place(v1::HeldCheckpoint::DURABLE);
  }
  for (Worker& worker : workers) {
    ASSERT_OK(h_.Sync(worker));
    worker.reports.clear();
    worker.checkpoints.insert(worker.checkpoints.end(), stored.begin(),
                              stored.end());
  }
  h_.paused = true;
  for (int i = 0; i < 500; ++i) h_.Submit(TestSpec(kWorkers * kSlots));
  h_.Restart();
  h_.paused = false;
  h_.pause_after_pass = 4;
  h_.busy = absl::ZeroDuration();
  size_t desired = 0;
  for (Worker& worker : workers) {
    worker.seen_version = 0;
    desired += h_.Sync(worker)->desired_size();
    // Ticks go on meanwhile; they announce changed peers.
    if (numbers[worker.id] % 200 == 0) h_.Advance(absl::Seconds(1));
  }
  const absl::Duration took = std::exchange(h_.busy, absl::ZeroDuration());
  EXPECT_EQ(desired, size_t{kJobs} * kMembers);
  EXPECT_TRUE(h_.job(jobs[0]).checkpoints(0).durable());
  RecordProperty("reconnect_ms",
                 static_cast<int>(absl::ToInt64Milliseconds(took)));
  // What they report after that costs no more, though each of them had listed
  // the store before.
  for (Worker& worker : workers) ASSERT_OK(h_.Sync(worker));
  std::cerr << kWorkers << " workers served in " << took << ", and again in "
            << h_.busy << "\n";
#if defined(__SANITIZE_ADDRESS__) || defined(COMERA_TSAN)
  constexpr absl::Duration kMost = absl::Seconds(60);
#else
  constexpr absl::Duration kMost = absl::Seconds(10);
#endif
  EXPECT_LT(took, kMost);
  EXPECT_LT(h_.busy, kMost);
}

TEST_F(CoordinatorTest, WhatAForgottenJobLeftInTheStoreGoesAfterARestartToo) {
  h_.paused = true;
  const std::string waiting = h_.Submit(2);
  ASSERT_OK(h_.Cancel(waiting));
  h_.paused = false;
  const std::string name = RunningJob();
  ASSERT_OK(h_.Cancel(name));
  ASSERT_OK(h_.Sync(w1_));
  for (v1::MemberStatus& member : w1_.members) member.set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  w1_.members.clear();
  ASSERT_EQ(h_.job(name).state(), v1::CANCELLED);
  h_.documents.clear();
  for (const std::string& job : {waiting, name}) {
    Effects effects;
    ASSERT_OK(h_.coordinator->Delete(job, &effects));
    h_.Take(std::move(effects));
    h_.stored.erase(job);
  }
  // The one that has never run has left nothing.
  ASSERT_THAT(h_.documents, SizeIs(1));
  EXPECT_EQ(h_.documents[0].name, name);
  h_.Restart();
  ASSERT_OK(h_.coordinator->LoadDocuments({}, {}, h_.documents));
  v1::HeldCheckpoint held;
  held.set_job(name);
  held.set_attempt(1);
  held.set_step(40);
  held.set_place(v1::HeldCheckpoint::DURABLE);
  w1_.checkpoints = {held};
  ASSERT_OK_AND_ASSIGN(const v1::SynchronizeResponse told, h_.Sync(w1_));
  EXPECT_THAT(told.expired(), SizeIs(1));
}

}  // namespace
}  // namespace comera::server
