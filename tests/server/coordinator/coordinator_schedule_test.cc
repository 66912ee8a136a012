// Traces of the coordinator's state machine: preempted, resized, paused,
// drained.
#include "common/status_matchers.h"
#include "server/coordinator/coordinator.h"
#include "server/rpc/proto_time.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SchedulingTest : public CoordinatorTest {
 protected:
  std::string SubmitWith(int ranks, int priority, int min_processes = 0) {
    v1::JobSpec spec = TestSpec(ranks);
    spec.set_priority(priority);
    spec.mutable_resources()->set_min_processes(min_processes);
    return h_.Submit(spec);
  }

  // The worker follows its answers until nothing changes.
  void Obey(Worker& worker) {
    for (int i = 0; i < 4; ++i) {
      const v1::SynchronizeResponse answer = *h_.Sync(worker);
      std::vector<v1::MemberStatus> members;
      for (const v1::MemberStatus& old : worker.members) {
        bool wanted = false;
        for (const v1::MemberAssignment& rank : answer.desired()) {
          wanted = wanted || (rank.job() == old.job() &&
                              rank.attempt() == old.attempt() &&
                              rank.rank() == old.rank());
        }
        if (wanted || old.phase() == kExited) continue;
        v1::MemberStatus ended = old;
        ended.set_phase(kExited);
        ranks.push_back(ended);
      }
      for (const v1::MemberAssignment& rank : answer.desired()) {
        ranks.push_back(Status(rank.job(), rank.attempt(), rank.rank(),
                               kRunning, rank.slot()));
      }
      worker.members = std::move(ranks);
    }
  }

  // Passes the minimum run time, without a silent worker.
  void Pass(absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(5)) {
      h_.Advance(absl::Seconds(5));
      for (Worker* worker : {&w1_, &w2_}) {
        if (worker->seen_version == 0) continue;
        ASSERT_OK(h_.Sync(*worker));
      }
    }
  }

  v1::Job Pause(const std::string& name) {
    v1::PauseJobRequest request;
    request.set_name(name);
    Effects effects;
    const auto job = h_.coordinator->Pause(request, h_.now, &effects);
    EXPECT_OK(job);
    h_.Take(std::move(effects));
    h_.Schedule();
    return *job;
  }
  v1::Job Resume(const std::string& name) {
    v1::ResumeJobRequest request;
    request.set_name(name);
    Effects effects;
    const auto job = h_.coordinator->Resume(request, h_.now, &effects);
    EXPECT_OK(job);
    h_.Take(std::move(effects));
    h_.Schedule();
    return *job;
  }
  v1::WorkerSummary Drain(const std::string& worker, bool wait) {
    v1::DrainWorkerRequest request;
    request.set_name("workers/" + worker);
    request.set_reason("new disks");
    request.set_wait(wait);
    Effects effects;
    const auto summary = h_.coordinator->Drain(request, h_.now, &effects);
    EXPECT_OK(summary);
    h_.Take(std::move(effects));
    h_.Schedule();
    return *summary;
  }
};

TEST_F(SchedulingTest, PreemptedJobSavesEndsAndKeepsItsPlaceUncharged) {
  const std::string low = SubmitWith(2, 0);
  Obey(w1_);
  ASSERT_EQ(h_.job(low).state(), v1::RUNNING);
  const std::string high = SubmitWith(2, 5);
  EXPECT_EQ(h_.job(low).state(), v1::RUNNING);
  EXPECT_FALSE(h_.stored[low].attempt().stopping()) << "minimum run time";
  Pass(absl::Minutes(6));
  EXPECT_TRUE(h_.stored[low].attempt().stopping());
  EXPECT_THAT(h_.job(low).reason(), HasSubstr(high));
  // It gets the grace period, and nobody gets its slots yet.
  const v1::SynchronizeResponse answer = *h_.Sync(w1_);
  EXPECT_THAT(answer.desired(), IsEmpty());
  ASSERT_THAT(answer.stopping(), SizeIs(2));
  EXPECT_EQ(answer.stopping(0).grace().seconds(), 120);
  // One member ends before the other: its slot is not given away alone.
  w1_.members[1].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  const std::string tiny = SubmitWith(1, 0);
  EXPECT_EQ(h_.job(tiny).state(), v1::QUEUED);
  w1_.members[0].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(high).state(), v1::STARTING);
  EXPECT_EQ(h_.job(low).state(), v1::QUEUED);
  EXPECT_EQ(h_.job(low).incidents(0).failure_class(), v1::PREEMPTED);
  EXPECT_EQ(h_.stored[low].infrastructure_losses(), 0);
  EXPECT_EQ(h_.stored[low].preemptions(), 1);
  // It goes on before the later one of its priority.
  w1_.members.clear();
  ASSERT_OK(h_.Cancel(high));
  Obey(w1_);
  EXPECT_EQ(h_.job(low).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(low).attempt(), 2);
  EXPECT_EQ(h_.job(tiny).state(), v1::QUEUED);
}

TEST_F(SchedulingTest, FailureWhileStoppingIsNotCharged) {
  const std::string low = SubmitWith(2, 0);
  Obey(w1_);
  SubmitWith(2, 5);
  Pass(absl::Minutes(6));
  ASSERT_TRUE(h_.stored[low].attempt().stopping());
  w1_.members = {Failed(low, 1, 0, v1::INTERNAL, h_.now),
                 Failed(low, 1, 1, v1::RANK_LOST, h_.now)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(low).state(), v1::QUEUED);
  EXPECT_EQ(h_.stored[low].training_losses(), 0);
  EXPECT_EQ(h_.stored[low].infrastructure_losses(), 0);
}

TEST_F(SchedulingTest, ElasticJobShrinksForOthersAndGrowsBack) {
  w1_.slots = 4;
  const std::string elastic = SubmitWith(4, 0, /*min_processes=*/1);
  Obey(w1_);
  EXPECT_THAT(h_.stored[elastic].attempt().members(), SizeIs(4));
  const std::string other = SubmitWith(2, 0);
  Pass(absl::Minutes(6));
  Obey(w1_);
  EXPECT_EQ(h_.job(elastic).state(), v1::RUNNING);
  EXPECT_THAT(h_.stored[elastic].attempt().members(), SizeIs(2));
  EXPECT_EQ(h_.job(elastic).attempt(), 2);
  EXPECT_EQ(h_.job(other).state(), v1::RUNNING);
  EXPECT_THAT(h_.job(elastic).incidents(), IsEmpty());
  const auto answer = *h_.Sync(w1_);
  for (const v1::MemberAssignment& rank : answer.desired()) {
    EXPECT_EQ(rank.world_size(), 2);
  }
  ASSERT_OK(h_.Cancel(other));
  Obey(w1_);
  Pass(absl::Minutes(8));
  Obey(w1_);
  EXPECT_EQ(h_.job(elastic).state(), v1::RUNNING);
  EXPECT_THAT(h_.stored[elastic].attempt().members(), SizeIs(4));
  EXPECT_EQ(h_.job(elastic).attempt(), 3);
}

TEST_F(SchedulingTest, PausedJobLeavesItsSlotsUntilItIsResumed) {
  const std::string name = SubmitWith(2, 0);
  Obey(w1_);
  EXPECT_TRUE(Pause(name).pausing());
  const std::string next = SubmitWith(2, 0);
  Obey(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::PAUSED);
  EXPECT_FALSE(h_.job(name).pausing());
  EXPECT_EQ(h_.job(next).state(), v1::RUNNING);
  EXPECT_EQ(Pause(name).state(), v1::PAUSED);
  h_.Restart();
  Obey(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::PAUSED);
  EXPECT_EQ(Resume(name).state(), v1::QUEUED);
  ASSERT_OK(h_.Cancel(next));
  Obey(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  // A queued job is paused at once, and a paused one can be cancelled.
  const std::string queued = SubmitWith(2, 0);
  EXPECT_EQ(Pause(queued).state(), v1::PAUSED);
  ASSERT_OK(h_.Cancel(queued));
  EXPECT_EQ(h_.job(queued).state(), v1::CANCELLED);
  v1::PauseJobRequest request;
  request.set_name(queued);
  Effects effects;
  EXPECT_THAT(h_.coordinator->Pause(request, h_.now, &effects),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(SchedulingTest, ResumedBeforeItStoppedGoesOnAtOnce) {
  const std::string name = SubmitWith(2, 0);
  Obey(w1_);
  Pause(name);
  Resume(name);
  Obey(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).attempt(), 2);
}

TEST_F(SchedulingTest, DrainedWorkersRanksMoveAndItTakesNoMore) {
  const std::string name = SubmitWith(2, 0);
  Obey(w1_);
  EXPECT_EQ(Drain("w1", false).service(), v1::WorkerSummary::DRAINING);
  Obey(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_EQ(h_.coordinator->GetWorker("workers/w1", h_.now)->service(),
            v1::WorkerSummary::DRAINED);
  Obey(w2_);
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.stored[name].attempt().members(0).worker(), "w2");
  EXPECT_EQ(h_.stored[name].infrastructure_losses(), 0);
  // The decision outlives the coordinator.
  ASSERT_THAT(h_.documents, SizeIs(1));
  EXPECT_EQ(h_.documents.back().kind, "worker");
  v1::ResumeWorkerRequest request;
  request.set_name("workers/w1");
  Effects effects;
  ASSERT_OK(h_.coordinator->ResumeWorker(request, h_.now, &effects));
  h_.Take(std::move(effects));
  EXPECT_FALSE(h_.documents.back().body.has_value());
  const std::string next = SubmitWith(2, 0);
  Obey(w1_);
  EXPECT_EQ(h_.job(next).state(), v1::RUNNING);
}

TEST_F(SchedulingTest, DrainCanWaitForTheRanksThere) {
  const std::string name = SubmitWith(2, 0);
  Obey(w1_);
  Drain("w1", true);
  Obey(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).attempt(), 1);
  SubmitWith(1, 0);
  Obey(w1_);
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(2));
}

TEST_F(SchedulingTest, WorkerWithHardwareFailuresOfSeveralJobsIsExcluded) {
  for (const char* id : {"w3", "w4", "w5"}) {
    Worker other{id};
    other.slots = 0;
    ASSERT_OK(h_.Sync(other));
  }
  w1_.slots = 1;
  for (int i = 0; i < 3; ++i) {
    v1::JobSpec spec = TestSpec(1);
    spec.mutable_retries()->set_infrastructure(0);
    const std::string name = h_.Submit(spec);
    w1_.members.clear();
    Obey(w1_);
    ASSERT_EQ(h_.job(name).state(), v1::RUNNING) << i;
    w1_.members = {Failed(name, 1, 0, v1::RANK_LOST, h_.now)};
    ASSERT_OK(h_.Sync(w1_));
  }
  const v1::WorkerSummary summary =
      *h_.coordinator->GetWorker("workers/w1", h_.now);
  EXPECT_EQ(summary.service(), v1::WorkerSummary::EXCLUDED);
  EXPECT_THAT(summary.service_reason(), HasSubstr("3 hardware failures"));
  const std::string name = SubmitWith(1, 0);
  w1_.members.clear();
  Obey(w1_);
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
}

// "When will mine run, who is ahead?"
TEST_F(SchedulingTest, Complaint10_WhoIsAheadAndWhenItStarts) {
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_time_limit()->set_seconds(3600);
  const std::string first = h_.Submit(spec);
  Obey(w1_);
  const std::string second = h_.Submit(spec);
  const std::string third = SubmitWith(2, 0);
  const v1::JobExplanation told = *h_.coordinator->Explain(third, h_.now);
  EXPECT_EQ(told.position(), 2);
  ASSERT_THAT(told.ahead(), SizeIs(1));
  EXPECT_EQ(told.ahead(0).name(), second);
  EXPECT_EQ(told.ahead(0).why(), "was submitted before");
  EXPECT_EQ(told.blocked_by(), "waiting for earlier jobs");
  EXPECT_EQ(FromTimestamp(told.expected_start()), h_.now + absl::Hours(2));
  ASSERT_THAT(told.smaller_gangs(), SizeIs(1));
  EXPECT_FALSE(told.smaller_gangs(0).now());
  EXPECT_EQ(h_.coordinator->Explain(second, h_.now)->blocked_by(),
            "waiting for 2 free CPU slots, 0 free");
  EXPECT_THAT(h_.coordinator->Explain(first, h_.now)->workers(),
              ElementsAre("w1"));
  EXPECT_THAT(h_.coordinator->Explain("jobs/none", h_.now),
              StatusIs(absl::StatusCode::kNotFound));
  // A forecast needs no submission.
  spec.set_queue("default");
  const v1::Forecast forecast = h_.coordinator->Forecast(spec, "", h_.now);
  EXPECT_EQ(forecast.processes_now(), 0);
  EXPECT_EQ(forecast.position(), 2);
  EXPECT_EQ(forecast.blocked_by(), "waiting for earlier jobs");
}

TEST_F(SchedulingTest, QueueOfARunningJobCannotBeDeleted) {
  v1::CreateQueueRequest request;
  request.set_queue_id("vision");
  Effects effects;
  ASSERT_OK(h_.coordinator->CreateQueue(request, h_.now, &effects));
  v1::JobSpec spec = TestSpec(1);
  spec.set_queue("vision");
  const std::string name = h_.Submit(spec);
  v1::DeleteQueueRequest deletion;
  deletion.set_name("queues/vision");
  EXPECT_THAT(h_.coordinator->DeleteQueue(deletion, &effects),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(h_.Cancel(name));
  EXPECT_OK(h_.coordinator->DeleteQueue(deletion, &effects));
}

}  // namespace
}  // namespace comera::server
