// Traces of the coordinator's state machine: failures, and what is done about
// them.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "server/coordinator/coordinator.h"
#include "server/rpc/proto_time.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class RecoveryTest : public CoordinatorTest {
 protected:
  // Both members are at this step, and the second was stopped for this long.
  void Stopped(absl::Duration silent) {
    for (v1::MemberStatus& rank : w1_.members) {
      rank.set_step(7);
      rank.set_stage(v1::EARLY);
      rank.set_collectives(41);
      rank.set_collectives_begun(42);
      *rank.mutable_stalled() = ToProtoDuration(silent);
    }
    w1_.members[1].set_collectives_begun(41);
    *w1_.members[1].mutable_silent() = ToProtoDuration(silent);
  }

  v1::ProgressReport Checkpoint(const std::string& job, int64_t number,
                                int64_t step) {
    v1::ProgressReport report = Metrics(job, 1, number, step);
    report.mutable_event()->mutable_checkpoint()->set_step(step);
    return report;
  }

  v1::HeldCheckpoint Held(const std::string& job, int64_t step,
                          v1::HeldCheckpoint::Place place) {
    v1::HeldCheckpoint held;
    held.set_job(job);
    held.set_step(step);
    held.set_place(place);
    return held;
  }
};

TEST_F(RecoveryTest, Complaint01_AStuckRankIsNamedWithin30Seconds) {
  const std::string name = RunningJob();
  Stopped(absl::Seconds(27));
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).incidents_size(), 0);
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(2));
  Stopped(absl::Seconds(30));
  const v1::SynchronizeResponse answer = *h_.Sync(w1_);
  EXPECT_THAT(answer.desired(), SizeIs(0));
  // Both are killed from outside: the stopped one takes no signal, the other
  // waits in a collective and could save nothing.
  EXPECT_THAT(answer.kill(), SizeIs(2));
  const v1::Failure& failure = h_.events.back().incident();
  EXPECT_EQ(failure.failure_class(), v1::COLLECTIVE_HANG);
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_THAT(failure.message(), HasSubstr("before collective 42"));
}

TEST_F(RecoveryTest, Complaint02_AHungGangIsTriedAgainOnceItIsGone) {
  const std::string name = RunningJob();
  Stopped(absl::Seconds(30));
  ASSERT_OK(h_.Sync(w1_));
  h_.Restart();  // The verdict outlives the coordinator.
  EXPECT_THAT(h_.Sync(w1_)->kill(), SizeIs(2));
  EXPECT_EQ(h_.job(name).attempt(), 1);
  for (v1::MemberStatus& rank : w1_.members) rank.set_phase(kExited);
  w1_.members[1].set_log_tail("last words of rank 1");
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).attempt(), 2);
  ASSERT_THAT(h_.job(name).incidents(), SizeIs(1));
  EXPECT_EQ(h_.job(name).incidents(0).failure_class(), v1::COLLECTIVE_HANG);
  // Complaint 5: the log travels with the failure.
  EXPECT_EQ(h_.job(name).incidents(0).log_tail(), "last words of rank 1");
}

TEST_F(RecoveryTest, Complaint03_ASilentNetworkDestroysNoJob) {
  const std::string name = RunningJob();
  Stopped(absl::Seconds(20));
  ASSERT_OK(h_.Sync(w1_));
  // Nothing is heard for most of a minute; the last report does not get older.
  for (int i = 0; i < 55; ++i) h_.Advance(absl::Seconds(1));
  Stopped(absl::ZeroDuration());
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).incidents_size(), 0);
}

TEST_F(RecoveryTest,
       Complaint04_AResultFromAnOutageIsTakenByTheNextCoordinator) {
  const std::string name = RunningJob();
  h_.Restart();
  w1_.members = {Result(name, 1), Status(name, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::SUCCEEDED);
  EXPECT_EQ(h_.job(name).attempt(), 1);
}

TEST_F(RecoveryTest, Complaint04_ATerminalStateIsReachedWithoutTheWorker) {
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_retries()->set_infrastructure(0);
  const std::string name = h_.Submit(spec);
  h_.Follow(w1_, kRunning);
  h_.Restart();
  for (int i = 0; i < 62; ++i) h_.Advance(absl::Seconds(1));
  EXPECT_EQ(h_.job(name).state(), v1::FAILED);
  EXPECT_EQ(h_.job(name).failure().failure_class(), v1::NODE_LOST);
}

TEST_F(RecoveryTest, Complaint05_TheLogsTailTravelsWithTheFailure) {
  const std::string name = RunningJob();
  w1_.members[0] = Failed(name, 1, 0, v1::USER, h_.now);
  w1_.members[0].mutable_failure()->set_log_tail("no such file: x");
  w1_.members[1].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).failure().log_tail(), "no such file: x");
}

TEST_F(RecoveryTest, Complaint15_ALaterErrorDoesNotMaskTheFirstOne) {
  const std::string name = RunningJob();
  w1_.members[1] = Failed(name, 1, 1, v1::DATA, h_.now);
  ASSERT_OK(h_.Sync(w1_));
  h_.Advance(absl::Seconds(5));
  w1_.members[0] = Failed(name, 1, 0, v1::INTERNAL, h_.now);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).failure().failure_class(), v1::DATA);
  ASSERT_THAT(h_.job(name).incidents(), SizeIs(1));
  EXPECT_EQ(h_.job(name).incidents(0).failure_class(), v1::INTERNAL);
}

// A worker whose clock is an hour slow must not always be the first.
TEST_F(RecoveryTest, Complaint15_WrongClocksDoNotChooseTheCause) {
  h_.Advance(absl::Hours(2));
  const std::string name = RunningJob();
  h_.Advance(absl::Seconds(5));
  w1_.members[1] = Failed(name, 1, 1, v1::NAN_LOSS, h_.now - absl::Seconds(4));
  w1_.members[0] =
      Failed(name, 1, 0, v1::COLLECTIVE_HANG, h_.now - absl::Hours(1));
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).failure().failure_class(), v1::NAN_LOSS);
  const absl::Time told = FromTimestamp(h_.job(name).incidents(0).time());
  EXPECT_GE(told, h_.now - absl::Seconds(5));
}

TEST_F(RecoveryTest, Complaint16_NoSlotIsOfferedBeforeItsProcessIsGone) {
  const std::string name = RunningJob();
  const std::string next = h_.Submit(2);
  ASSERT_OK(h_.Cancel(name));
  ASSERT_OK(h_.Sync(w1_));
  w1_.members[0].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLING);
  EXPECT_EQ(h_.job(next).state(), v1::QUEUED);
  w1_.members[1].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::CANCELLED);
  EXPECT_EQ(h_.job(next).state(), v1::STARTING);
}

TEST_F(RecoveryTest, Complaint13_APreemptionNoticeCostsNothing) {
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_retries()->set_infrastructure(0);
  const std::string name = h_.Submit(spec);
  h_.Follow(w1_, kRunning);
  w1_.members[0] = Failed(name, 1, 0, v1::PREEMPTED, h_.now);
  w1_.members[1] = Failed(name, 1, 1, v1::PREEMPTED, h_.now);
  w1_.slots = 0;  // The worker is ending.
  w1_.reports = {Checkpoint(name, 1, 20)};
  w1_.checkpoints = {Held(name, 20, v1::HeldCheckpoint::DISK)};
  w1_.peer_address = "10.0.0.1:1";
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_EQ(h_.stored[name].infrastructure_losses(), 0);
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_EQ(h_.job(name).attempt(), 2);
  EXPECT_TRUE(h_.Sync(w2_)->desired(0).resume());
}

TEST_F(RecoveryTest, BackOffGrowsAndKeepsThePlaceInTheQueue) {
  const std::string name = RunningJob();
  const auto lose = [&](int64_t attempt) {
    w1_.members = {Failed(name, attempt, 0, v1::RANK_LOST, h_.now),
                   Status(name, attempt, 1, kExited)};
    ASSERT_OK(h_.Sync(w1_));
    w1_.members.clear();
    ASSERT_OK(h_.Sync(w1_));
  };
  lose(1);
  EXPECT_EQ(h_.job(name).attempt(), 2);  // There is no wait.
  lose(2);
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  // A job that ends in time may use the slots meanwhile; the first one keeps
  // its place in the queue.
  const int64_t serial = h_.stored[name].serial();
  v1::JobSpec brief = TestSpec(2);
  brief.mutable_time_limit()->set_seconds(1);
  const std::string later = h_.Submit(brief);
  EXPECT_EQ(h_.job(later).state(), v1::STARTING);
  const std::string last = h_.Submit(2);
  h_.Advance(absl::Seconds(2));
  h_.Follow(w1_, kRunning);
  w1_.members = {Result(later, 1), Status(later, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.stored[name].serial(), serial);
  EXPECT_EQ(h_.job(name).attempt(), 3);
  EXPECT_EQ(h_.job(last).state(), v1::QUEUED);
}

TEST_F(RecoveryTest, AGoneProcessIsLostAtOnceASilentOneIsNot) {
  w1_.peer_address = "10.0.0.1:7500";
  const std::string name = RunningJob();
  h_.Advance(absl::Seconds(2));
  EXPECT_THAT(h_.probes, SizeIs(0));
  h_.Advance(absl::Seconds(1));
  ASSERT_THAT(h_.probes, SizeIs(1));
  EXPECT_EQ(h_.probes[0].address, "10.0.0.1:7500");
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  // The machine refused the connection.
  Effects effects;
  h_.coordinator->ConfirmWorkerExit("w1", "another", h_.now, &effects);
  EXPECT_TRUE(effects.records.empty());
  h_.coordinator->ConfirmWorkerExit("w1", "i1", h_.now, &effects);
  ASSERT_EQ(effects.records.count(name), 1u);
  EXPECT_EQ(effects.records[name].job().state(), v1::QUEUED);
  EXPECT_EQ(effects.records[name].job().incidents(0).failure_class(),
            v1::NODE_LOST);
}

TEST_F(RecoveryTest, AWorkerThatSpokeSinceIsNotGone) {
  w1_.peer_address = "10.0.0.1:7500";
  RunningJob();
  h_.Advance(absl::Seconds(5));
  ASSERT_OK(h_.Sync(w1_));
  Effects effects;
  h_.coordinator->ConfirmWorkerExit("w1", "i1", h_.now, &effects);
  EXPECT_TRUE(effects.records.empty());
}

TEST_F(RecoveryTest, CheckpointsHaveCopiesAndAreFetchedFromThem) {
  w1_.peer_address = "10.0.0.1:1";
  w1_.host = "a";
  w2_.peer_address = "10.0.0.2:1";
  w2_.host = "b";
  const std::string name = RunningJob();
  const int64_t before = w1_.seen_version;
  ASSERT_OK(h_.Sync(w2_));
  h_.Advance(absl::Seconds(1));
  v1::SynchronizeResponse answer = *h_.Sync(w1_);
  EXPECT_GT(answer.desired_version(), before);
  ASSERT_THAT(answer.desired(), SizeIs(2));
  ASSERT_THAT(answer.desired(0).replicas(), SizeIs(1));
  EXPECT_EQ(answer.desired(0).replicas(0).address(), "10.0.0.2:1");
  EXPECT_THAT(answer.desired(1).replicas(), SizeIs(0));
  w1_.reports = {Checkpoint(name, 1, 20)};
  w1_.checkpoints = {Held(name, 20, v1::HeldCheckpoint::DISK)};
  ASSERT_OK(h_.Sync(w1_));
  w2_.checkpoints = {Held(name, 20, v1::HeldCheckpoint::MEMORY)};
  ASSERT_OK(h_.Sync(w2_));
  ASSERT_THAT(h_.job(name).checkpoints(), SizeIs(1));
  EXPECT_THAT(h_.job(name).checkpoints(0).workers(), ElementsAre("w1", "w2"));
  // w1 is lost; on a third worker the job finds its state with the second.
  w2_.slots = 0;
  Worker w3{"w3"};
  w3.peer_address = "10.0.0.3:1";
  w3.host = "c";
  for (int i = 0; i < 61; ++i) {
    h_.Advance(absl::Seconds(1));
    ASSERT_OK(h_.Sync(w2_));
    ASSERT_OK(h_.Sync(w3));
  }
  answer = *h_.Sync(w3);
  ASSERT_THAT(answer.desired(), SizeIs(2));
  ASSERT_THAT(answer.desired(0).sources(), SizeIs(1));
  EXPECT_EQ(answer.desired(0).sources(0).worker(), "w2");
}

TEST_F(RecoveryTest, CopiesOfEndedJobsMayGo) {
  const std::string name = RunningJob();
  w2_.peer_address = "10.0.0.2:1";
  w2_.checkpoints = {Held(name, 20, v1::HeldCheckpoint::MEMORY)};
  EXPECT_THAT(h_.Sync(w2_)->ended_jobs(), SizeIs(0));
  w1_.members = {Result(name, 1), Status(name, 1, 1, kExited)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_THAT(h_.Sync(w2_)->ended_jobs(), ElementsAre(name));
}

TEST_F(RecoveryTest, Complaint12_APassedOverCheckpointIsToldAndTrainingGoesOn) {
  const std::string name = RunningJob();
  v1::ProgressReport report = Metrics(name, 1, 1, 5);
  v1::Failure& incident = *report.mutable_event()->mutable_incident();
  incident.set_failure_class(v1::CHECKPOINT_DAMAGED);
  incident.set_message("step-20 is damaged, going on from step 10");
  w1_.reports = {report};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  ASSERT_THAT(h_.job(name).incidents(), SizeIs(1));
  EXPECT_THAT(h_.job(name).incidents(0).message(), HasSubstr("step 10"));
  EXPECT_EQ(h_.events.back().incident().failure_class(),
            v1::CHECKPOINT_DAMAGED);
}

TEST_F(RecoveryTest, AMissingModelIsAskedForAgain) {
  const std::string name = RunningJob();
  w1_.members = {Result(name, 1), Status(name, 1, 1, kExited)};
  w1_.members[0].mutable_model()->set_name(name + "/models/final");
  w1_.members[0].mutable_model()->add_files()->set_path("model.safetensors");
  const v1::SynchronizeResponse answer = *h_.Sync(w1_);
  ASSERT_THAT(answer.missing_models(), SizeIs(1));
  EXPECT_EQ(answer.missing_models(0).rank(), 0);
}

// Three workers with one member each, and one more with a slot to spare.
class MassSilenceTest : public CoordinatorTest {
 protected:
  MassSilenceTest() {
    for (int i = 0; i < 4; ++i) {
      workers_.push_back(Worker{"m" + std::to_string(i)});
      workers_.back().slots = 1;
    }
    for (int i = 0; i < 3; ++i) {
      jobs_.push_back(h_.Submit(1));
      h_.Follow(workers_[i], kRunning);
      EXPECT_EQ(h_.job(jobs_[i]).state(), v1::RUNNING);
    }
    EXPECT_OK(h_.Sync(workers_[3]));
  }

  // Time passes, with reports of these workers only.
  void Pass(absl::Duration duration, const std::vector<int>& heard) {
    const absl::Time end = h_.now + duration;
    while (h_.now < end) {
      h_.Advance(std::min(absl::Seconds(5), end - h_.now));
      for (int i : heard) h_.Follow(workers_[i], kRunning);
    }
  }
  int Losses(int job) {
    return h_.stored.at(jobs_[job]).infrastructure_losses();
  }
  bool MassSilence() {
    return h_.coordinator->CountCluster(h_.now).mass_silence;
  }

  std::vector<Worker> workers_;
  std::vector<std::string> jobs_;
};

TEST_F(MassSilenceTest, NobodyIsGivenUpWhenMostVanishTogether) {
  Pass(absl::Minutes(50), {3});
  EXPECT_TRUE(MassSilence());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(h_.job(jobs_[i]).state(), v1::RUNNING);
  }
  // They come back, one after the other.
  Pass(absl::Seconds(20), {3, 0});
  EXPECT_FALSE(MassSilence());
  Pass(absl::Seconds(20), {3, 0, 1});
  Pass(absl::Seconds(100), {3, 0, 1, 2});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(h_.job(jobs_[i]).state(), v1::RUNNING);
    EXPECT_EQ(h_.job(jobs_[i]).attempt(), 1);
    EXPECT_EQ(Losses(i), 0);
  }
}

TEST_F(MassSilenceTest, OneThatStaysSilentIsGivenUpOnceMostAreBack) {
  Pass(absl::Minutes(10), {3});
  Pass(absl::Seconds(60), {3, 0, 1});
  EXPECT_EQ(h_.job(jobs_[2]).attempt(), 1);
  Pass(absl::Seconds(30), {3, 0, 1});
  // Its successor has the free slot. The loss came with the silence of most.
  EXPECT_EQ(h_.job(jobs_[2]).attempt(), 2);
  EXPECT_EQ(Losses(2), 0);
}

TEST_F(MassSilenceTest, ThePauseEndsAfterTheOperatorsLimit) {
  Pass(absl::Minutes(62), {3});
  EXPECT_FALSE(MassSilence());
  int placed = 0;
  for (int i = 0; i < 3; ++i) {
    placed += h_.job(jobs_[i]).attempt() == 2;
    EXPECT_EQ(Losses(i), 0);
  }
  EXPECT_EQ(placed, 1);
}

TEST_F(MassSilenceTest, FewOfManyAreGivenUpAsEver) {
  Pass(absl::Seconds(70), {1, 2, 3});
  EXPECT_EQ(h_.job(jobs_[0]).attempt(), 2);
  EXPECT_EQ(Losses(0), 1);
}

TEST_F(MassSilenceTest, ASecondLossInARowIsCharged) {
  Pass(absl::Minutes(10), {3});
  // A power cut: the daemons are new, and nothing runs.
  for (int i = 0; i < 3; ++i) {
    workers_[i].incarnation = "i2";
    workers_[i].members.clear();
    workers_[i].seen_version = 0;
    h_.Follow(workers_[i], kRunning);
  }
  Pass(absl::Seconds(10), {0, 1, 2, 3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(h_.job(jobs_[i]).attempt(), 2);
    EXPECT_EQ(Losses(i), 0);
  }
  for (Worker& worker : workers_) h_.Follow(worker, kRunning);
  Pass(absl::Minutes(10), {});
  for (int i = 0; i < 4; ++i) {
    workers_[i].incarnation = "i3";
    workers_[i].members.clear();
    (void)h_.Sync(workers_[i]);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Losses(i), 1);
}

TEST_F(MassSilenceTest, WorkersThatEndInPeaceAreNotMissed) {
  // Two are shut down: they say that they offer nothing any more.
  for (int i : {1, 2}) {
    workers_[i].slots = 0;
    workers_[i].members[0].set_phase(kExited);
    (void)h_.Sync(workers_[i]);
  }
  Pass(absl::Seconds(70), {3});
  EXPECT_FALSE(MassSilence());
  EXPECT_GT(h_.job(jobs_[0]).attempt() + Losses(0), 1);
}

// Random clusters, of which a random majority is cut off for a random time.
TEST(MassSilenceProperty, AnOutageOfMostCostsNothingIfAllComeBackInTime) {
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    CoordinatorHarness h;
    const int count = pick(3, 10);
    struct Node {
      CoordinatorHarness::Worker worker;
      std::string job;
      absl::Time gone = absl::InfiniteFuture();
      absl::Time back = absl::InfiniteFuture();
    };
    std::vector<Node> nodes(count);
    for (int i = 0; i < count; ++i) {
      nodes[i].worker.id = "n" + std::to_string(i);
      nodes[i].worker.slots = 1;
      nodes[i].job = h.Submit(1);
      h.Follow(nodes[i].worker, kRunning);
    }
    std::shuffle(nodes.begin(), nodes.end(), random);
    const absl::Duration outage = absl::Seconds(pick(11, 3000));
    const absl::Time begin = h.now;
    const int cut = pick(count / 2 + 1, count);
    for (int i = 0; i < cut; ++i) {
      nodes[i].gone = begin + absl::Seconds(pick(0, 10));
      nodes[i].back =
          begin + absl::Seconds(10) + outage + absl::Seconds(pick(0, 50));
    }
    while (h.now < begin + outage + absl::Minutes(3)) {
      h.Advance(absl::Seconds(pick(1, 5)));
      for (Node& node : nodes) {
        if (h.now < node.gone || h.now >= node.back) (void)h.Sync(node.worker);
      }
    }
    for (const Node& node : nodes) {
      EXPECT_EQ(h.job(node.job).state(), v1::RUNNING);
      EXPECT_EQ(h.job(node.job).attempt(), 1);
      EXPECT_EQ(h.stored.at(node.job).infrastructure_losses(), 0);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_F(RecoveryTest, MembersThatSurvivedTheSilenceAreAdoptedAgain) {
  const std::string name = RunningJob();
  h_.Advance(absl::Seconds(70));
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_EQ(h_.stored.at(name).infrastructure_losses(), 1);
  // There is no other worker, so nothing was placed.
  const v1::SynchronizeResponse back = *h_.Sync(w1_);
  EXPECT_THAT(back.desired(), SizeIs(2));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).attempt(), 1);
  EXPECT_EQ(h_.stored.at(name).infrastructure_losses(), 0);
  EXPECT_EQ(h_.stored.at(name).losses_in_row(), 0);
  // It goes on, and its reports count.
  w1_.reports = {Metrics(name, 1, 1, 17)};
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).progress().step(), 17);
  w1_.reports.clear();
  w1_.members[0] = Result(name, 1);
  w1_.members[1].set_phase(kExited);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::SUCCEEDED);
}

TEST_F(RecoveryTest, AGangIsAdoptedWhenTheFirstOfItsWorkersIsBack) {
  w1_.slots = w2_.slots = 1;
  const std::string name = h_.Submit(2);
  (void)h_.Sync(w1_);
  h_.Follow(w2_, kRunning);
  h_.Follow(w1_, kRunning);
  ASSERT_EQ(h_.job(name).state(), v1::RUNNING);
  h_.Advance(absl::Seconds(70));
  ASSERT_EQ(h_.job(name).state(), v1::QUEUED);
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  // The other one has time, but not for ever.
  h_.Advance(absl::Seconds(50));
  EXPECT_THAT(h_.Sync(w2_)->desired(), SizeIs(1));
  ASSERT_OK(h_.Sync(w1_));
  h_.Advance(absl::Seconds(5));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).attempt(), 1);
}

TEST_F(RecoveryTest, AGangIsNotAdoptedOnceAMemberWasToldToStop) {
  w1_.slots = w2_.slots = 1;
  const std::string name = h_.Submit(2);
  (void)h_.Sync(w1_);
  h_.Follow(w2_, kRunning);
  h_.Follow(w1_, kRunning);
  ASSERT_EQ(h_.job(name).state(), v1::RUNNING);
  for (int i = 0; i < 14; ++i) {
    h_.Advance(absl::Seconds(5));
    ASSERT_OK(h_.Sync(w1_));
  }
  // It is back, but not in time: the gang is ending, and so are its members.
  EXPECT_THAT(h_.Sync(w2_)->desired(), SizeIs(0));
  ASSERT_EQ(h_.job(name).state(), v1::RUNNING);
  for (int i = 0; i < 14; ++i) {
    h_.Advance(absl::Seconds(5));
    EXPECT_THAT(h_.Sync(w2_)->desired(), SizeIs(0));
  }
  // The other one was lost too, while this one's member takes its time.
  EXPECT_EQ(h_.job(name).state(), v1::QUEUED);
  EXPECT_EQ(h_.stored.at(name).infrastructure_losses(), 1);
}

TEST_F(RecoveryTest, MembersAreAdoptedAlsoAfterTheirCheckpointWasGivenUp) {
  const std::string name = RunningJob();
  w1_.reports = {Metrics(name, 1, 1, 100)};
  w1_.reports[0].mutable_event()->mutable_checkpoint()->set_step(100);
  w1_.checkpoints = {Held(name, 100, v1::HeldCheckpoint::DISK)};
  ASSERT_OK(h_.Sync(w1_));
  w1_.reports.clear();
  h_.Advance(absl::Seconds(70));
  ASSERT_EQ(h_.job(name).state(), v1::QUEUED);
  // Nobody else has the state: after the wait the scheduler pauses the job.
  for (int minute = 0; minute < 12; ++minute) h_.Advance(absl::Minutes(1));
  ASSERT_EQ(h_.job(name).state(), v1::PAUSED);
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(2));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  EXPECT_EQ(h_.job(name).attempt(), 1);
}

TEST_F(RecoveryTest, NothingIsAdoptedAgainstALaterWord) {
  // The owner pauses the job.
  std::string name = RunningJob();
  h_.Advance(absl::Seconds(70));
  ASSERT_EQ(h_.job(name).state(), v1::QUEUED);
  v1::PauseJobRequest pause;
  pause.set_name(name);
  Effects effects;
  ASSERT_OK(h_.coordinator->Pause(pause, h_.now, &effects));
  h_.Take(std::move(effects));
  h_.Advance(absl::Seconds(1));
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.job(name).state(), v1::PAUSED);
  // The operator drains the worker.
  w1_.members.clear();
  name = RunningJob();
  h_.Advance(absl::Seconds(70));
  ASSERT_EQ(h_.job(name).state(), v1::QUEUED);
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/" + w1_.id);
  Effects drained;
  ASSERT_OK(h_.coordinator->Drain(drain, h_.now, &drained));
  h_.Take(std::move(drained));
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_NE(h_.job(name).state(), v1::RUNNING);
}

TEST_F(RecoveryTest, NothingIsAdoptedOnceASuccessorIsPlaced) {
  const std::string name = RunningJob();
  ASSERT_OK(h_.Sync(w2_));
  h_.now += absl::Seconds(50);
  ASSERT_OK(h_.Sync(w2_));
  h_.Advance(absl::Seconds(20));
  ASSERT_OK(h_.Sync(w2_));
  ASSERT_EQ(h_.job(name).attempt(), 2);
  EXPECT_THAT(h_.Sync(w1_)->desired(), SizeIs(0));
  EXPECT_EQ(h_.job(name).attempt(), 2);
}

TEST_F(RecoveryTest, AMemberThatDiedMeanwhileIsNotAdopted) {
  const std::string name = RunningJob();
  h_.Advance(absl::Seconds(70));
  ASSERT_EQ(h_.job(name).state(), v1::QUEUED);
  w1_.members[1] = Failed(name, 1, 1, v1::RANK_LOST, h_.now);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.stored.at(name).infrastructure_losses(), 1);
  EXPECT_NE(h_.job(name).state(), v1::RUNNING);
}

TEST_F(RecoveryTest, AClockThatIsNotBelievedSpendsNoTimeLimit) {
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_time_limit()->set_seconds(60);
  const std::string name = h_.Submit(spec);
  h_.Follow(w1_, kRunning);
  ASSERT_EQ(h_.job(name).state(), v1::RUNNING);
  h_.Restart(absl::Hours(24 * 31));
  h_.Follow(w1_, kRunning);
  h_.Advance(absl::Seconds(1));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
  // Corrected: what it ran meanwhile does not count as less than nothing.
  h_.now -= absl::Hours(24 * 31);
  h_.Restart();
  h_.Follow(w1_, kRunning);
  h_.Advance(absl::Seconds(1));
  EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
}

TEST_F(RecoveryTest, RetriesRefillWithProgress) {
  const std::string name = RunningJob();
  h_.Advance(absl::Seconds(70));
  w1_.incarnation = "i2";
  w1_.members.clear();
  w1_.seen_version = 0;
  h_.Follow(w1_, kRunning);
  ASSERT_EQ(h_.job(name).attempt(), 2);
  ASSERT_EQ(h_.stored.at(name).infrastructure_losses(), 1);
  const auto saved = [&](int64_t number, int64_t step) {
    w1_.reports = {Metrics(name, 2, number, step)};
    w1_.reports[0].mutable_event()->mutable_checkpoint()->set_step(step);
    ASSERT_OK(h_.Sync(w1_));
  };
  saved(1, 100);
  EXPECT_EQ(h_.stored.at(name).infrastructure_losses(), 0);
  EXPECT_EQ(h_.stored.at(name).best_step(), 100);
  // What was trained before gives nothing back.
  w1_.reports.clear();
  w1_.checkpoints = {Held(name, 100, v1::HeldCheckpoint::DISK)};
  ASSERT_OK(h_.Sync(w1_));
  h_.Advance(absl::Seconds(70));
  w1_.incarnation = "i3";
  w1_.members.clear();
  h_.Follow(w1_, kRunning);
  ASSERT_EQ(h_.job(name).attempt(), 3);
  ASSERT_EQ(h_.stored.at(name).infrastructure_losses(), 1);
  w1_.reports = {Metrics(name, 3, 1, 90)};
  w1_.reports[0].mutable_event()->mutable_checkpoint()->set_step(90);
  ASSERT_OK(h_.Sync(w1_));
  EXPECT_EQ(h_.stored.at(name).infrastructure_losses(), 1);
}

}  // namespace
}  // namespace comera::server
