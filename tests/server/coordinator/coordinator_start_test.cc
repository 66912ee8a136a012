// Traces of the coordinator's state machine: from which state attempts begin,
// and what happens while nobody can give it.
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "server/coordinator/coordinator.h"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "tests/server/prepared_test_job.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kDisk = v1::HeldCheckpoint::DISK;
constexpr auto kMemory = v1::HeldCheckpoint::MEMORY;
constexpr auto kDurable = v1::HeldCheckpoint::DURABLE;

// Two workers on machines of their own, and a job with two members.
class StartTest : public CoordinatorTest {
 protected:
  StartTest() {
    Place("a", &w1_);
    Place("b", &w2_);
  }

  static void Place(const std::string& host, Worker* worker) {
    worker->host = host;
    worker->peer_address = host + ":1";
  }

  void Hold(Worker& worker, int64_t attempt, int64_t step,
            v1::HeldCheckpoint::Place place = kDisk) {
    v1::HeldCheckpoint held;
    held.set_job(name_);
    held.set_attempt(attempt);
    held.set_step(step);
    held.set_place(place);
    worker.checkpoints.push_back(held);
  }

  // Member 0 on the worker saves a checkpoint, which is its report `number`.
  void Save(Worker& worker, int64_t attempt, int64_t number, int64_t step) {
    v1::ProgressReport report;
    report.set_job(name_);
    report.set_attempt(attempt);
    report.set_number(number);
    report.mutable_event()->mutable_checkpoint()->set_step(step);
    worker.reports = {Metrics(name_, attempt, number, step), report};
    worker.reports[1].set_number(number + 1);
    Hold(worker, attempt, step);
    ASSERT_OK(h_.Sync(worker));
    worker.reports.clear();
  }

  // Member 0 on the worker says that it has begun, which is its first report.
  void Begin(Worker& worker, int64_t attempt, int64_t step) {
    v1::ProgressReport report;
    report.set_job(name_);
    report.set_attempt(attempt);
    report.set_number(1);
    report.mutable_event()->mutable_run_info()->set_resumed_from_step(step);
    worker.reports = {report};
    ASSERT_OK(h_.Sync(worker));
    worker.reports.clear();
  }

  // The job runs on w1 and has saved a checkpoint of step 2000 there. w2 was
  // told to keep copies.
  void RunTo2000() {
    name_ = RunningJob();
    ASSERT_OK(h_.Sync(w2_));
    ASSERT_OK(h_.Sync(w1_));
    Save(w1_, 1, 1, 2000);
  }

  // Lets time pass while these workers report.
  void Pass(absl::Duration duration, std::initializer_list<Worker*> present) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(2)) {
      h_.Advance(absl::Seconds(2));
      for (Worker* worker : present) (void)h_.Sync(*worker);
    }
  }

  // The worker's machine answers that it has no such process.
  void Kill(Worker& worker) {
    h_.Advance(absl::Seconds(4));
    Effects effects;
    h_.coordinator->ConfirmWorkerExit(worker.id, worker.incarnation, h_.now,
                                      &effects);
    h_.Take(std::move(effects));
    h_.Schedule();
  }

  void Restart(Worker& worker) {
    worker.incarnation += "x";
    worker.seen_version = 0;
    worker.members.clear();
    ASSERT_OK(h_.Sync(worker));
  }

  // All members on the worker fail.
  void Fail(Worker& worker, v1::FailureClass failure_class) {
    const int64_t attempt = Job().attempt();
    worker.members = {Failed(name_, attempt, 0, failure_class, h_.now),
                      Status(name_, attempt, 1, kExited)};
    ASSERT_OK(h_.Sync(worker));
    worker.members.clear();
    ASSERT_OK(h_.Sync(worker));
  }

  absl::StatusOr<v1::Job> Resume(bool start_over = false) {
    v1::ResumeJobRequest request;
    request.set_name(name_);
    request.set_start_over(start_over);
    Effects effects;
    auto job = h_.coordinator->Resume(request, h_.now, &effects, "ada");
    h_.Take(std::move(effects));
    h_.Schedule();
    return job;
  }

  const v1::Job& Job() { return h_.job(name_); }
  const std::string& Reason() { return h_.reasons[name_]; }
  std::string LastIncident() {
    return Job().incidents().empty() ? ""
                                     : Job().incidents().rbegin()->message();
  }
  // What member 0 is told on this worker: "attempt A: begins at step 0",
  // "attempt A: goes on from A/STEP of SOURCES"; empty: it has no member there.
  std::string Told(Worker& worker) {
    (void)h_.Sync(worker);
    const auto answer = h_.Sync(worker);
    for (const v1::MemberAssignment& member : answer->desired()) {
      if (member.rank() != 0) continue;
      std::string text = absl::StrCat("attempt ", member.attempt(), ": ");
      if (!member.resume()) return text + "begins at step 0";
      if (!member.has_start()) return text + "goes on from the newest";
      absl::StrAppend(&text, "goes on from ", member.start().attempt(), "/",
                      member.start().step(), " of");
      for (const v1::Peer& source : member.sources()) {
        absl::StrAppend(&text, " ", source.worker());
      }
      return text;
    }
    return "";
  }

  std::string name_;
};

// What happened: `kill -9` of the machine that held the checkpoint, which was
// back 12 s later; meanwhile the job began at step 0 elsewhere, in silence.
TEST_F(StartTest, AKilledHolderIsWaitedFor) {
  RunTo2000();
  ASSERT_OK(h_.Sync(w2_));
  Kill(w1_);
  EXPECT_EQ(Job().state(), v1::QUEUED);
  Pass(absl::Seconds(8), {&w2_});
  EXPECT_EQ(Job().state(), v1::QUEUED);
  const std::string reason =
      "waiting for worker w1, which holds its checkpoint of step 2000";
  EXPECT_EQ(Reason(), reason);
  EXPECT_EQ(h_.coordinator->Explain(name_, h_.now)->blocked_by(), reason);
  EXPECT_FALSE(h_.coordinator->Explain(name_, h_.now)->has_expected_start());
  Restart(w1_);
  EXPECT_EQ(Told(w1_), "attempt 2: goes on from 1/2000 of");
  for (const v1::Failure& incident : Job().incidents()) {
    EXPECT_EQ(incident.failure_class(), v1::NODE_LOST);
  }
  EXPECT_FALSE(h_.stored[name_].has_holder_wait_time());
}

// What happened: the job was paused, and resumed while the daemon of the holder
// was away for 4 s.
TEST_F(StartTest, AJobThatIsResumedWhileItsHolderIsAwayKeepsItsState) {
  RunTo2000();
  Effects effects;
  v1::PauseJobRequest pause;
  pause.set_name(name_);
  ASSERT_OK(h_.coordinator->Pause(pause, h_.now, &effects));
  h_.Take(std::move(effects));
  w1_.members = {Status(name_, 1, 0, kExited), Status(name_, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(Job().state(), v1::PAUSED);
  w1_.members.clear();
  w1_.slots = 0;
  ASSERT_OK(h_.Sync(w1_));
  // Away for too short a time to be missed: whoever runs the job is told what
  // to start from, and where it is.
  h_.Advance(absl::Seconds(2));
  ASSERT_OK(h_.Sync(w2_));
  ASSERT_OK(Resume());
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of w1");
  // It could not be fetched: the next attempt does not begin without it either.
  Fail(w2_, v1::CHECKPOINT_UNREACHABLE);
  EXPECT_EQ(Told(w2_), "");
  EXPECT_THAT(Reason(), HasSubstr("which attempt 2 could not"));
  Restart(w1_);
  EXPECT_EQ(Told(w2_), "attempt 3: goes on from 1/2000 of w1");
}

TEST_F(StartTest, ACancelledJobIsResumedFromItsNewestState) {
  RunTo2000();
  ASSERT_OK(h_.Cancel(name_));
  w1_.members.clear();
  w2_.members.clear();
  Pass(absl::Seconds(4), {&w1_, &w2_});
  ASSERT_EQ(Job().state(), v1::CANCELLED);
  Pass(absl::Hours(1), {&w1_, &w2_});
  ASSERT_OK(Resume());
  Pass(absl::Seconds(4), {&w1_, &w2_});
  EXPECT_EQ(Job().attempt(), 2);
  const v1::SynchronizeResponse told = *h_.Sync(w1_);
  ASSERT_THAT(told.desired(), SizeIs(2));
  EXPECT_EQ(told.desired(0).start().step(), 2000);
  EXPECT_EQ(told.desired(0).start_job(), "");
}

TEST_F(StartTest, AJobBeginsWithAnyCheckpointOfAnother) {
  RunTo2000();
  ASSERT_OK(h_.Sync(w2_));
  const std::string source = name_;
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_start_from()->set_checkpoint(source + "/checkpoints/1999");
  Effects effects;
  EXPECT_THAT(
      h_.coordinator->Submit(PreparedTestJob(spec), h_.now, &effects),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("the newest that is kept is " + source +
                         "/checkpoints/2000")));
  spec.mutable_start_from()->set_checkpoint(source + "/checkpoints/2000");
  name_ = h_.Submit(spec);
  const v1::SynchronizeResponse told = *h_.Sync(w2_);
  ASSERT_THAT(told.desired(), SizeIs(2));
  EXPECT_FALSE(told.desired(0).resume());
  EXPECT_EQ(told.desired(0).start_job(), source);
  EXPECT_EQ(told.desired(0).start().attempt(), 1);
  EXPECT_EQ(told.desired(0).start().step(), 2000);
  ASSERT_THAT(told.desired(0).sources(), SizeIs(1));
  EXPECT_EQ(told.desired(0).sources(0).worker(), "w1");
  EXPECT_EQ(told.desired(1).start_job(), "");
}

TEST_F(StartTest, AnEndedJobWhoseSourceIsGoneIsNotResumed) {
  RunTo2000();
  const std::string source = name_;
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_start_from()->set_checkpoint(source + "/checkpoints/2000");
  h_.paused = true;
  name_ = h_.Submit(spec);
  ASSERT_OK(h_.Cancel(name_));
  ASSERT_OK(Resume());
  ASSERT_OK(h_.Cancel(name_));
  ASSERT_OK(h_.Cancel(source));
  w1_.members.clear();
  w2_.members.clear();
  Pass(absl::Seconds(4), {&w1_, &w2_});
  Effects effects;
  ASSERT_OK(h_.coordinator->Delete(source, &effects));
  h_.Take(std::move(effects));
  EXPECT_THAT(Resume().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("there is no job of " + source)));
}

TEST_F(StartTest, ALateStateOfACutOffAttemptIsNotUsed) {
  RunTo2000();
  Hold(w2_, 1, 2000, kMemory);
  Pass(absl::Seconds(62), {&w2_});
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of");
  Begin(w2_, 2, 2000);
  // The cut-off attempt has gone on meanwhile.
  Hold(w1_, 1, 2400);
  ASSERT_OK(h_.Sync(w1_));
  w1_.members.clear();
  ASSERT_OK(h_.Sync(w1_));
  w1_.slots = 0;
  ASSERT_OK(h_.Sync(w1_));
  Fail(w2_, v1::RANK_LOST);
  Pass(absl::Seconds(2), {&w1_, &w2_});
  EXPECT_EQ(Told(w2_), "attempt 3: goes on from 1/2000 of w1");
  // A snapshot of this attempt is newer than any named checkpoint. Nothing can
  // come from an attempt that has not begun.
  Hold(w2_, 3, 2100);
  Hold(w2_, 9, 9000);
  Fail(w2_, v1::RANK_LOST);
  Pass(absl::Seconds(4), {&w1_, &w2_});
  EXPECT_EQ(Told(w2_), "attempt 4: goes on from 3/2100 of");
}

TEST_F(StartTest, AnAttemptThatNeverBeganGivesNothingUp) {
  RunTo2000();
  Hold(w2_, 1, 2000, kMemory);
  ASSERT_OK(h_.Sync(w2_));
  Kill(w1_);
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of");
  // Newer copies had replaced it before w1 was lost.
  w2_.checkpoints.clear();
  Hold(w2_, 1, 2030, kMemory);
  Fail(w2_, v1::CHECKPOINT_UNREACHABLE);
  Pass(absl::Seconds(4), {&w2_});
  EXPECT_EQ(Told(w2_), "attempt 3: goes on from 1/2030 of");
}

TEST_F(StartTest, ARestartedCoordinatorSaysTheSame) {
  RunTo2000();
  Hold(w2_, 1, 2000, kMemory);
  Pass(absl::Seconds(62), {&w2_});
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of");
  h_.Follow(w2_, kRunning);
  h_.Restart();
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of");
}

TEST_F(StartTest, AfterARestartWorkersMayReportFirst) {
  RunTo2000();
  Hold(w2_, 1, 1900, kMemory);
  ASSERT_OK(h_.Sync(w2_));
  Kill(w1_);
  h_.Restart();
  EXPECT_EQ(Told(w2_), "");
  EXPECT_EQ(Reason(),
            "waiting for worker w1 to report after the coordinator's restart");
  Restart(w1_);
  EXPECT_NE(Told(w1_), "");
}

TEST_F(StartTest, TheWaitEndsWithAnOlderStateAndAnIncident) {
  name_ = RunningJob();
  Save(w1_, 1, 1, 1000);
  Hold(w2_, 1, 1000, kMemory);
  ASSERT_OK(h_.Sync(w2_));
  Save(w1_, 1, 3, 2000);
  Kill(w1_);
  Pass(absl::Minutes(9), {&w2_});
  EXPECT_EQ(Told(w2_), "");
  Pass(absl::Minutes(1) + absl::Seconds(4), {&w2_});
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/1000 of");
  EXPECT_EQ(LastIncident(),
            "goes on from step 1000 in place of step 2000: its checkpoint of "
            "step 2000 could not be had within 10m from worker w1, which holds "
            "it");
  // Once the attempt has begun, what was given up is out of the race for good.
  EXPECT_THAT(Job().checkpoints(), SizeIs(2));
  Begin(w2_, 2, 1000);
  ASSERT_THAT(Job().checkpoints(), SizeIs(1));
  Restart(w1_);
  Fail(w2_, v1::RANK_LOST);
  h_.Advance(absl::Seconds(2));
  EXPECT_EQ(Told(w2_) + Told(w1_), "attempt 3: goes on from 1/1000 of w1");
}

TEST_F(StartTest, WithoutAnyOtherStateTheOwnerDecides) {
  RunTo2000();
  Kill(w1_);
  Pass(absl::Minutes(6), {&w2_});
  // The wait does not begin anew with another coordinator.
  h_.Restart();
  Pass(absl::Minutes(4), {&w2_});
  EXPECT_EQ(Job().state(), v1::PAUSED);
  const std::string id = name_.substr(5);
  EXPECT_EQ(Job().reason(),
            "its checkpoint of step 2000 could not be had within 10m from "
            "worker w1, which holds it; `comera resume " +
                id + "` once worker w1 is back, `comera resume " + id +
                " --start-over` to begin at step 0");
  // Resumed too early it waits anew.
  ASSERT_OK(Resume());
  Pass(absl::Minutes(9), {&w2_});
  EXPECT_EQ(Job().state(), v1::QUEUED);
  EXPECT_THAT(Reason(), HasSubstr("waiting for worker w1"));
  Restart(w1_);
  EXPECT_EQ(Told(w1_) + Told(w2_), "attempt 2: goes on from 1/2000 of");
}

TEST_F(StartTest, TheJobFileMayAllowToStartOver) {
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_retries()->set_start_over(true);
  name_ = h_.Submit(spec);
  h_.Follow(w1_, kRunning);
  Save(w1_, 1, 1, 2000);
  Kill(w1_);
  Pass(absl::Minutes(9), {&w2_});
  EXPECT_EQ(Told(w2_), "");
  Pass(absl::Minutes(1) + absl::Seconds(4), {&w2_});
  EXPECT_EQ(Told(w2_), "attempt 2: begins at step 0");
  EXPECT_THAT(LastIncident(),
              HasSubstr("begins at step 0 again, as retries.start_over says: "
                        "its checkpoint of step 2000"));
  // The old state is not gone back to.
  Restart(w1_);
  Hold(w2_, 2, 10);
  Fail(w2_, v1::RANK_LOST);
  h_.Advance(absl::Seconds(2));
  EXPECT_EQ(Told(w2_) + Told(w1_), "attempt 3: goes on from 2/10 of");
}

TEST_F(StartTest, APausedJobBeginsAnewByItsOwnersWish) {
  RunTo2000();
  EXPECT_THAT(Resume(true).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  Kill(w1_);
  Pass(absl::Minutes(11), {&w2_});
  ASSERT_EQ(Job().state(), v1::PAUSED);
  ASSERT_OK(Resume(true));
  EXPECT_EQ(Told(w2_), "attempt 2: begins at step 0");
  EXPECT_EQ(LastIncident(), "begun again at step 0 by ada's wish");
  EXPECT_THAT(Job().checkpoints(), IsEmpty());
  h_.Follow(w2_, kRunning);
  Save(w2_, 2, 1, 10);
  ASSERT_THAT(Job().checkpoints(), SizeIs(1));
  EXPECT_EQ(Job().checkpoints(0).step(), 10);
  Restart(w1_);
  Fail(w2_, v1::RANK_LOST);
  h_.Advance(absl::Seconds(2));
  EXPECT_EQ(Told(w2_) + Told(w1_), "attempt 3: goes on from 2/10 of");
}

TEST_F(StartTest, AJobThatWaitsForItsCheckpointCanBeginAnewAtOnce) {
  RunTo2000();
  ASSERT_OK(h_.Sync(w2_));
  Kill(w1_);
  Pass(absl::Seconds(4), {&w2_});
  ASSERT_EQ(Job().state(), v1::QUEUED);
  ASSERT_OK(Resume(true));
  EXPECT_EQ(Told(w2_), "attempt 2: begins at step 0");
  EXPECT_EQ(LastIncident(), "begun again at step 0 by ada's wish");
}

TEST_F(StartTest, AHolderThatLostItsDiskLeavesTheCheckpointNamed) {
  RunTo2000();
  w1_.checkpoints.clear();
  Restart(w1_);
  Pass(absl::Seconds(4), {&w1_, &w2_});
  EXPECT_EQ(Job().state(), v1::QUEUED);
  ASSERT_THAT(Job().checkpoints(), SizeIs(1));
  EXPECT_THAT(Job().checkpoints(0).workers(), IsEmpty());
  EXPECT_EQ(Reason(),
            "waiting for its checkpoint of step 2000, which no worker has now");
  // The disk is mounted again.
  Hold(w1_, 1, 2000);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(Told(w1_) + Told(w2_), "attempt 2: goes on from 1/2000 of");
}

TEST_F(StartTest, AJobThatNeverSavedBeginsAgainAndSaysSo) {
  name_ = RunningJob();
  Fail(w1_, v1::RANK_LOST);
  EXPECT_EQ(Told(w1_), "attempt 2: begins at step 0");
  ASSERT_THAT(Job().incidents(), SizeIs(1));
  h_.Follow(w1_, kRunning);
  w1_.reports = {Metrics(name_, 2, 1, 70)};
  ASSERT_OK(h_.Sync(w1_));
  w1_.reports.clear();
  Fail(w1_, v1::RANK_LOST);
  h_.Advance(absl::Seconds(2));
  EXPECT_EQ(Told(w1_), "attempt 3: begins at step 0");
  EXPECT_EQ(LastIncident(),
            "no checkpoint had been saved; begins at step 0 again");
}

TEST_F(StartTest, ADamagedStateIsReplacedByAnOlderOneAndNeverByTheBeginning) {
  name_ = RunningJob();
  Save(w1_, 1, 1, 1000);
  Save(w1_, 1, 3, 2000);
  Fail(w1_, v1::RANK_LOST);
  EXPECT_EQ(Told(w1_), "attempt 2: goes on from 1/2000 of");
  Fail(w1_, v1::CHECKPOINT_DAMAGED);
  h_.Advance(absl::Seconds(2));
  EXPECT_EQ(Told(w1_), "attempt 3: goes on from 1/1000 of");
  EXPECT_EQ(LastIncident(),
            "the state of step 2000 cannot be read; the checkpoint of step "
            "1000 is the next older one");
  Fail(w1_, v1::CHECKPOINT_DAMAGED);
  h_.Advance(absl::Seconds(5));
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(Job().state(), v1::PAUSED);
  EXPECT_THAT(Job().reason(),
              HasSubstr("none of its checkpoints can be read; `comera resume"));
  // To resume it changes nothing; to start over does.
  ASSERT_OK(Resume());
  EXPECT_EQ(Told(w1_), "");
  EXPECT_EQ(Job().state(), v1::PAUSED);
  ASSERT_OK(Resume(true));
  EXPECT_EQ(Told(w1_), "attempt 4: begins at step 0");
}

TEST_F(StartTest, AStateThatCannotBeFetchedRestsAndIsTriedAgain) {
  RunTo2000();
  w1_.slots = 0;
  w1_.members = {Failed(name_, 1, 0, v1::RANK_LOST, h_.now),
                 Status(name_, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  w1_.members.clear();
  Pass(absl::Seconds(2), {&w1_, &w2_});
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of w1");
  Fail(w2_, v1::CHECKPOINT_UNREACHABLE);
  Pass(absl::Minutes(4), {&w1_, &w2_});
  EXPECT_EQ(Told(w2_), "");
  EXPECT_EQ(Reason(),
            "waiting to fetch its checkpoint of step 2000 from w1 again, which "
            "attempt 2 could not");
  Pass(absl::Minutes(1) + absl::Seconds(4), {&w1_, &w2_});
  EXPECT_EQ(Told(w2_), "attempt 3: goes on from 1/2000 of w1");
  // The wait counts from the first failure.
  Fail(w2_, v1::CHECKPOINT_UNREACHABLE);
  Pass(absl::Minutes(5), {&w1_, &w2_});
  EXPECT_EQ(Job().state(), v1::PAUSED);
}

TEST_F(StartTest, AStateInTheStoreNeedsNoHolder) {
  RunTo2000();
  Hold(w2_, 1, 2000, kDurable);
  ASSERT_OK(h_.Sync(w2_));
  Kill(w1_);
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of");
}

// Said to be in the store, and not to be had: until it is looked for again,
// nobody is told that it is there.
TEST_F(StartTest, AStateThatCouldNotBeFetchedIsNotSaidToBeStored) {
  RunTo2000();
  Hold(w2_, 1, 2000, kDurable);
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_TRUE(Job().checkpoints(0).durable());
  Kill(w1_);
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/2000 of");
  Fail(w2_, v1::CHECKPOINT_UNREACHABLE);
  ASSERT_THAT(Job().checkpoints(), SizeIs(1));
  EXPECT_FALSE(Job().checkpoints(0).durable());
  Pass(absl::Minutes(4), {&w2_});
  EXPECT_FALSE(Job().checkpoints(0).durable());
  // By now w2 has listed the store again.
  Pass(absl::Minutes(1) + absl::Seconds(4), {&w2_});
  EXPECT_TRUE(Job().checkpoints(0).durable());
  EXPECT_EQ(Told(w2_), "attempt 3: goes on from 1/2000 of");
}

// Nobody but w1 can read what lies there, and w1 is taken.
TEST_F(StartTest, AStateThatNobodyElseCanReadHoldsNobodyBack) {
  w1_.peer_address = "";
  RunTo2000();
  ASSERT_OK(h_.Sync(w2_));
  Fail(w1_, v1::RANK_LOST);
  EXPECT_EQ(Told(w1_), "attempt 2: goes on from 1/2000 of");
  w1_.slots = 0;
  w1_.members = {Failed(name_, 2, 0, v1::PREEMPTED, h_.now),
                 Status(name_, 2, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  w1_.members.clear();
  Pass(absl::Seconds(2), {&w1_, &w2_});
  EXPECT_EQ(Told(w2_), "");
  EXPECT_EQ(Reason(),
            "waiting for room where its checkpoint of step 2000 on w1 can be "
            "read");
  const std::string other = h_.Submit(2);
  EXPECT_EQ(h_.job(other).state(), v1::STARTING);
  w1_.slots = 2;
  Pass(absl::Seconds(32), {&w1_, &w2_});
  EXPECT_EQ(Told(w1_), "attempt 3: goes on from 1/2000 of");
}

TEST_F(StartTest, MemberZeroIsOneThatCanReadTheState) {
  w1_.peer_address = "";
  w1_.slots = w2_.slots = 1;
  ASSERT_OK(h_.Sync(w1_));
  ASSERT_OK(h_.Sync(w2_));
  name_ = h_.Submit(2);
  h_.Follow(w1_, kRunning);
  h_.Follow(w2_, kRunning);
  ASSERT_EQ(Job().state(), v1::RUNNING);
  // What w2 saved, and whoever was member 0, only w2 can read it.
  w2_.peer_address = "";
  Hold(w2_, 1, 50);
  ASSERT_OK(h_.Sync(w2_));
  for (Worker* worker : {&w1_, &w2_}) {
    for (v1::MemberStatus& member : worker->members) {
      member = Failed(name_, 1, member.rank(), v1::RANK_LOST, h_.now);
    }
    ASSERT_OK(h_.Sync(*worker));
    worker->members.clear();
  }
  EXPECT_EQ(Told(w1_), "");
  EXPECT_EQ(Told(w2_), "attempt 2: goes on from 1/50 of");
}

TEST_F(StartTest, StatesOfOlderWorkersAreFoundByTheirSteps) {
  RunTo2000();
  w1_.checkpoints.clear();
  Hold(w1_, 0, 2000);
  ASSERT_OK(h_.Sync(w1_));
  Fail(w1_, v1::RANK_LOST);
  EXPECT_EQ(Told(w1_), "attempt 2: goes on from 0/2000 of");
  h_.Follow(w1_, kRunning);
  Hold(w1_, 0, 2500);
  Save(w1_, 2, 1, 3000);
  w1_.checkpoints.back().set_attempt(0);
  ASSERT_OK(h_.Sync(w1_));
  Fail(w1_, v1::RANK_LOST);
  h_.Advance(absl::Seconds(2));
  EXPECT_EQ(Told(w1_), "attempt 3: goes on from 0/3000 of");
}

TEST_F(StartTest, ATroubleOfAMemberIsOneIncident) {
  name_ = RunningJob();
  v1::MemberTrouble trouble;
  trouble.set_job(name_);
  trouble.set_attempt(1);
  trouble.set_failure_class(v1::DISK_FULL);
  trouble.set_message("copies of 3 GB fit into no worker's replica memory");
  w1_.troubles = {trouble};
  for (int i = 0; i < 3; ++i) ASSERT_OK(h_.Sync(w1_));
  ASSERT_THAT(Job().incidents(), SizeIs(1));
  EXPECT_EQ(Job().incidents(0).failure_class(), v1::DISK_FULL);
  EXPECT_EQ(LastIncident(), trouble.message());
  // Other attempts, and workers without a member, have nothing to say.
  trouble.set_message("another");
  w2_.troubles = {trouble};
  ASSERT_OK(h_.Sync(w2_));
  w1_.troubles[0].set_attempt(7);
  w1_.troubles[0].set_message("of the future");
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_THAT(Job().incidents(), SizeIs(1));
  w1_.troubles[0].set_message(std::string(5000, 'x'));
  EXPECT_THAT(h_.Sync(w1_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  w1_.troubles.assign(2000, trouble);
  EXPECT_THAT(h_.Sync(w1_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::server
