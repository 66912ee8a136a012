// Checks what a worker and its coordinator exchange through errors, restarts
// and changes of the leader.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/session/worker_session_fixture.h"
#include "worker/gang/member_records.h"
#include "worker/session/leader_fence.h"
#include "worker/session/worker_session.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST_F(WorkerSessionTest, IntroducesItself) {
  Create();
  ASSERT_OK(session_->RunOnce());
  const v1::SynchronizeRequest request = service_.state().last;
  EXPECT_EQ(request.worker(), "w");
  EXPECT_EQ(request.incarnation(), "first");
  EXPECT_EQ(request.slots_size(), 2);
  EXPECT_FALSE(request.version().empty());
}

TEST_F(WorkerSessionTest, LocalNewsCutAHeldCallShort) {
  options_.hold = absl::Seconds(3600);
  options_.call_timeout = absl::Seconds(3600);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  // The member dies by itself while nothing else happens.
  const std::vector<MemberRecord> records =
      MemberRecords(folder_ + "/ranks").Load();
  ASSERT_EQ(records.size(), 1u);
  kill(records[0].pid(), SIGKILL);
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_THAT(StatusOf(0).failure().message(), HasSubstr("signal 9"));
}

TEST_F(WorkerSessionTest, TrainsOnWhileTheCoordinatorIsAway) {
  // The second call below comes after the first was held this long.
  options_.hold = absl::Milliseconds(20);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.Stop();
  const int before = service_.state().calls;
  service_.Start();
  ASSERT_TRUE(service_.WaitFor(
      [&](const State& state) { return state.calls >= before + 2; }));
  // The same member neither ended nor started twice.
  State state = service_.state();
  EXPECT_EQ(state.exits_reported.size(), 0);
  ASSERT_EQ(state.last.members_size(), 1);
  EXPECT_EQ(state.last.members(0).phase(), v1::MemberStatus::RUNNING);
  EXPECT_EQ(state.last.members(0).step(), 7);
}

TEST_F(WorkerSessionTest, RepeatsReportsAndLogsUntilAcknowledged) {
  service_.SetAcknowledging(false);
  service_.SetForgetting(false);
  service_.Want({Assign("spam")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && state.repeated_reports >= 12;
  }));
  service_.SetAcknowledging(true);
  service_.SetForgetting(true);
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return state.last.members_size() == 0 && state.last.logs_size() == 0;
  }));
  State state = service_.state();
  EXPECT_EQ(state.reports.size(), 6);
  EXPECT_EQ(state.files.size(), 2);
  std::ifstream file(folder_ + "/jobs/a/logs/1-0.log");
  const std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_GT(written.size(), 2 << 20);
  EXPECT_TRUE(state.logs[Key(kJob, 1, 0)] == written);
}

TEST_F(WorkerSessionTest, CallsCarryABoundedPieceOfTheLog) {
  service_.SetAcknowledging(false);
  service_.Want({Assign("spam")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return state.last.logs_size() == 1 &&
           state.last.logs(0).data().size() >= 256 << 10;
  }));
  EXPECT_EQ(service_.state().last.logs(0).data().size(), 256 << 10);
}

TEST_F(WorkerSessionTest, TriesUploadsAgain) {
  service_.SetUploadError(absl::DataLossError("checksum"));
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.uploads >= 3; }));
  EXPECT_FALSE(Exited(service_.state(), Key(kJob, 1, 0)));
  service_.SetUploadError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_TRUE(StatusOf(0).has_result());
}

TEST_F(WorkerSessionTest, GivesUpAnUploadForAnEpochThatIsOver) {
  service_.SetUploadError(absl::AbortedError("attempt"));
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_FALSE(StatusOf(0).has_result());
}

TEST_F(WorkerSessionTest, AnUnwantedUploadIsNotTriedForEver) {
  service_.SetUploadError(absl::UnavailableError("disk"));
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.uploads >= 2; }));
  service_.Want({});
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_FALSE(StatusOf(0).has_result());
}

TEST_F(WorkerSessionTest, CarriesTheRendezvousOfASharedGang) {
  v1::MemberAssignment rank = Assign("meet");
  rank.set_local_world_size(1);
  service_.Want({rank});
  Run();
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.rendezvous.count("at/0") > 0; }));
  EXPECT_EQ(service_.state().rendezvous["at/0"], "address");
  v1::RendezvousEntry entry;
  entry.set_job(kJob);
  entry.set_attempt(1);
  entry.set_key("at/1");
  entry.set_value("elsewhere");
  service_.Offer(entry);
  entry.set_job("jobs/stranger");
  service_.Offer(entry);
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_TRUE(StatusOf(0).has_result());
  // Entries of other workers are not sent back.
  EXPECT_EQ(service_.state().rendezvous.count("at/1"), 0);
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/stranger"));
}

// The attack: one job's member silences its whole worker.
TEST_F(WorkerSessionTest, WhatAMemberLeavesForItsGangKeepsNobodyFromReporting) {
  v1::MemberAssignment litter = Assign("litter");
  litter.set_local_world_size(1);
  service_.Want({litter});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0}) &&
           state.rendezvous.count("litter-0") > 0;
  }));
  v1::MemberAssignment other = Assign("succeed", 1, 0);
  other.set_job("jobs/other");
  other.set_slot(1);
  service_.Want({litter, other});
  EXPECT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {"jobs/other", 1, 0});
  }));
}

TEST_F(WorkerSessionTest, AnotherIncarnationEndsThisOne) {
  service_.Want({Assign("ignore_term")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.SetError(absl::AbortedError("taken over"));
  thread_.join();
  EXPECT_THAT(run_status_, StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(fs::is_empty(folder_ + "/ranks"));  // No process left.
}

// By what a leader that was replaced knows, nothing runs here, or another
// daemon of this name does.
TEST_F(WorkerSessionTest, AnOldLeadersAnswerStopsNobody) {
  service_.SetTerm(7);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.SetTerm(6);
  service_.Want({});
  const int calls = service_.state().calls;
  ASSERT_TRUE(service_.WaitFor(
      [&](const State& state) { return state.calls >= calls + 5; }));
  service_.SetError(absl::AbortedError("taken over"));
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.refused_calls >= 3; }));
  EXPECT_EQ(StatusOf(0).phase(), v1::MemberStatus::RUNNING);
  // The next leader is believed, and so is a coordinator of an earlier version.
  service_.SetTerm(8);
  service_.SetError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  service_.SetTerm(0);
  service_.Want({Assign("wait", 2)});
  EXPECT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 2, 0});
  }));
}

TEST_F(WorkerSessionTest, AnOldLeadersRefusalOfAModelIsNotFinal) {
  service_.SetTerm(7);
  service_.SetUploadError(absl::AbortedError("attempt"), 6);
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.uploads >= 2; }));
  service_.SetUploadError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_TRUE(StatusOf(0).has_result());
}

TEST(LeaderFenceTest, RemembersTheHighestTermOverARestart) {
  const std::string path = testing::TempDir() + "/leader_term";
  fs::remove(path);
  {
    LeaderFence fence(path);
    EXPECT_TRUE(fence.Admit(5, "a"));
    EXPECT_TRUE(fence.Admit(9, "a"));
    EXPECT_FALSE(fence.Admit(5, "a"));
  }
  LeaderFence fence(path);
  EXPECT_FALSE(fence.Admit(8, "a"));
  // A coordinator of an earlier version does not say whose it is.
  EXPECT_FALSE(fence.Admit(8, ""));
  EXPECT_TRUE(fence.Admit(9, "a"));
  EXPECT_TRUE(fence.Admit(9, ""));
  EXPECT_FALSE(LeaderFence(path).Admit(8, "a"));
  // What is not a number counts as none.
  ASSERT_OK(WriteFileAtomically(path, "?"));
  EXPECT_TRUE(LeaderFence(path).Admit(1, ""));
}

TEST(LeaderFenceTest, AnotherClustersTermsAreItsOwn) {
  const std::string path = testing::TempDir() + "/leader_term";
  fs::remove(path);
  EXPECT_TRUE(LeaderFence(path).Admit(9, "a"));
  LeaderFence fence(path);
  EXPECT_TRUE(fence.Admit(5, "b"));
  EXPECT_FALSE(fence.Admit(4, "b"));
  EXPECT_TRUE(fence.Admit(6, "b"));
  EXPECT_FALSE(LeaderFence(path).Admit(5, "b"));
}

// The file of an earlier version names no cluster.
TEST(LeaderFenceTest, AFileWithoutAClusterGetsOne) {
  const std::string path = testing::TempDir() + "/leader_term";
  ASSERT_OK(WriteFileAtomically(path, "9\n"));
  EXPECT_FALSE(LeaderFence(path).Admit(8, "a"));
  EXPECT_TRUE(LeaderFence(path).Admit(9, "a"));
  EXPECT_FALSE(LeaderFence(path).Admit(8, "a"));
  EXPECT_TRUE(LeaderFence(path).Admit(8, "b"));
}

}  // namespace
}  // namespace comera::worker
