// Checks that a worker goes on with the members that the daemon before it left,
// or ends them.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_gpu_driver.h"
#include "tests/worker/session/worker_session_fixture.h"
#include "worker/gang/member_records.h"
#include "worker/session/worker_session.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST_F(WorkerSessionTest, KillsWhatAnEarlierDaemonLeft) {
  // A process as a crashed daemon would leave it, with its record.
  const pid_t leftover = fork();
  if (leftover == 0) {
    setpgid(0, 0);
    while (true) pause();
  }
  const MemberRecords records(folder_ + "/ranks");
  MemberRecord record;
  record.set_id(1);
  MemberRecords::Identify(leftover, &record);
  ASSERT_OK(records.Write(record));
  // A foreign process that has the process id of an old record survives.
  record.set_id(2);
  record.set_pid(getpid());
  record.set_identity("1 /some/older/program");
  ASSERT_OK(records.Write(record));
  Create();
  int status = 0;
  ASSERT_EQ(waitpid(leftover, &status, 0), leftover);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::is_empty(folder_ + "/ranks"));
}

// A daemon whose members survive it, and those that follow it on this machine.
class AdoptionTest : public WorkerSessionTest {
 protected:
  AdoptionTest() {
    options_.member_lease = absl::Hours(1);
    options_.daemon = "first";
  }

  // Ends the daemon but not its members.
  void Leave() {
    session_->Leave();
    thread_.join();
    EXPECT_OK(run_status_);
    session_.reset();
  }
  std::vector<MemberRecord> Records() const {
    return MemberRecords(folder_ + "/ranks").Load();
  }
  std::string KeptIncarnation() const {
    return MemberRecords(folder_ + "/ranks").KeptIncarnation();
  }
  // Starts the next daemon as the program does.
  void Follow() {
    options_.daemon = "second";
    options_.incarnation = KeptIncarnation();
    Run();
  }
};

TEST_F(AdoptionTest, TheNextDaemonGoesOnWithTheMembers) {
  service_.Want({Assign("wait", 1, 0), Assign("wait", 1, 1)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0}) && Running(state, {kJob, 1, 1});
  }));
  EXPECT_TRUE(service_.state().last.members_survive());
  Leave();
  const std::vector<MemberRecord> records = Records();
  ASSERT_EQ(records.size(), 2u);
  for (const MemberRecord& record : records) {
    EXPECT_EQ(kill(record.pid(), 0), 0);
  }
  const size_t reports = service_.state().reports.size();
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return state.last.daemon() == "second" && state.last.members_size() == 2;
  }));
  EXPECT_EQ(service_.state().last.incarnation(), "first");
  // Nothing is told twice.
  EXPECT_EQ(service_.state().reports.size(), reports);
  // They are stopped like any others.
  service_.Want({});
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && Exited(state, {kJob, 1, 1});
  }));
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.last.members_size() == 0; }));
  End();
  EXPECT_TRUE(Records().empty());
  for (const MemberRecord& record : records) {
    EXPECT_EQ(waitpid(record.pid(), nullptr, 0), record.pid());
  }
}

TEST_F(AdoptionTest, AMemberThatEndsWhileNobodyIsThereHasItsResult) {
  service_.Want({Assign("succeed_when_told")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    const auto log = state.logs.find({kJob, 1, 0});
    return log != state.logs.end() && log->second == "waiting\n" &&
           !state.reports.empty();
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  const pid_t pid = Records()[0].pid();
  kill(pid, SIGTERM);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && state.last.members_size() == 0;
  }));
  End();
  State state = service_.state();
  EXPECT_FALSE(StatusOf(0).has_failure()) << StatusOf(0).DebugString();
  EXPECT_EQ(StatusOf(0).result().outcome(), v1::COMPLETED);
  EXPECT_EQ(StatusOf(0).model().files_size(), 2);
  // Stage, run info, three metrics and the result, each once and in order.
  ASSERT_EQ(state.reports.size(), 6u);
  EXPECT_TRUE(state.reports.back().event().has_result());
  EXPECT_EQ((state.logs[{kJob, 1, 0}]), "waiting\ntold\n");
  EXPECT_TRUE(Records().empty());
}

// The coordinator has given the attempt up, and refuses its model, until it
// hears that the member is here.
TEST_F(AdoptionTest, AModelWaitsUntilTheCoordinatorKnowsOfTheMember) {
  service_.Want({Assign("succeed_when_told")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    const auto log = state.logs.find({kJob, 1, 0});
    return log != state.logs.end() && log->second == "waiting\n";
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  const pid_t pid = Records()[0].pid();
  kill(pid, SIGTERM);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  service_.SetUploadError(absl::AbortedError("has no running attempt"));
  service_.SetError(absl::UnavailableError("busy"));
  const int refused = service_.state().refused_calls;
  Follow();
  ASSERT_TRUE(service_.WaitFor(
      [&](const State& state) { return state.refused_calls >= refused + 10; }));
  EXPECT_EQ(service_.state().uploads, 0);
  service_.SetUploadError(absl::OkStatus());
  service_.SetError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_EQ(StatusOf(0).result().outcome(), v1::COMPLETED);
  EXPECT_EQ(StatusOf(0).model().files_size(), 2);
}

TEST_F(AdoptionTest, TheIncarnationIsKeptWithoutMembers) {
  EXPECT_EQ(KeptIncarnation(), "");
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.calls > 0; }));
  Leave();
  EXPECT_TRUE(Records().empty());
  EXPECT_EQ(KeptIncarnation(), "first");
  Follow();
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.last.daemon() == "second"; }));
  EXPECT_EQ(service_.state().last.incarnation(), "first");
  // A refused one is not tried again.
  service_.SetError(absl::AbortedError("taken over"));
  thread_.join();
  session_.reset();
  EXPECT_EQ(KeptIncarnation(), "");
}

TEST_F(AdoptionTest, AnIncarnationWhoseMembersEndWithTheirDaemonIsNotKept) {
  Create();
  session_.reset();
  EXPECT_EQ(KeptIncarnation(), "first");
  options_.member_lease = absl::ZeroDuration();
  Create();
  EXPECT_EQ(KeptIncarnation(), "");
}

// The next daemon is given other GPUs, so that it counts them differently.
TEST_F(AdoptionTest, AGpuThatAMemberOfAnotherSlotUsesIsNotFree) {
  AddGpu(0);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  const pid_t pid = Records()[0].pid();
  options_.slots[0] = v1::Slot();
  FakeGpuDriver* const gpu = AddGpu(1);
  GpuReading held;
  held.used_bytes = int64_t{5} << 30;
  gpu->Set(0, held);
  v1::MemberAssignment other = Assign("succeed");
  other.set_job("jobs/b");
  other.set_slot(1);
  service_.Want({Assign("wait"), other});
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {"jobs/b", 1, 0});
  }));
  State state = service_.state();
  EXPECT_THAT((state.ranks[{"jobs/b", 1, 0}].failure().message()),
              HasSubstr("started in another slot"));
  EXPECT_THAT(state.last.slots(1).unfit(), HasSubstr("another slot"));
  // It is free when that member has ended.
  service_.Want({});
  gpu->Set(0, GpuReading());
  EXPECT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && state.last.slots(1).unfit().empty();
  }));
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST_F(AdoptionTest, OnlyDataOfTheMembersThatAreLeftStay) {
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  MemberRecord record = Records()[0];
  const std::string used(64, 'd'), unused(64, 'e');
  record.mutable_assignment()->add_datasets()->set_digest(used);
  ASSERT_OK(MemberRecords(folder_ + "/ranks").Write(record));
  const std::string views = folder_ + "/datasets/views/";
  for (const std::string& digest : {used, unused}) {
    fs::create_directories(views + digest);
  }
  Follow();
  EXPECT_TRUE(fs::exists(views + used));
  EXPECT_FALSE(fs::exists(views + unused));
  End();
  EXPECT_EQ(waitpid(record.pid(), nullptr, 0), record.pid());
}

TEST_F(AdoptionTest, ALeaseFileThatWasRemovedIsMadeAgain) {
  options_.member_lease = absl::Milliseconds(10);
  Create();
  ASSERT_TRUE(fs::remove(folder_ + "/lease"));
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (!fs::exists(folder_ + "/lease") && absl::Now() < end) sched_yield();
  EXPECT_TRUE(fs::exists(folder_ + "/lease"));
}

TEST_F(AdoptionTest, AStartThatWasCutShortIsNotRepeated) {
  MemberRecord record;
  MemberRecords::Identify(0, &record);
  record.set_id(4);
  record.set_survives(true);
  record.set_incarnation("first");
  *record.mutable_assignment() = Assign("wait");
  ASSERT_OK(MemberRecords(folder_ + "/ranks").Write(record));
  service_.Want({Assign("wait")});
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_EQ(StatusOf(0).failure().failure_class(), v1::RANK_LOST);
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/logs/1-0.log"));
}

TEST_F(AdoptionTest, MembersOfAnotherBootAreNotAdopted) {
  MemberRecord record;
  MemberRecords::Identify(getpid(), &record);
  record.set_id(1);
  record.set_survives(true);
  record.set_incarnation("first");
  EXPECT_TRUE(MemberRecords::CanBeAdopted(record));
  record.set_boot("another");
  EXPECT_FALSE(MemberRecords::CanBeAdopted(record));
  const MemberRecords records(folder_ + "/ranks");
  ASSERT_OK(records.Write(record));
  EXPECT_EQ(records.KeptIncarnation(), "");
}

}  // namespace
}  // namespace comera::worker
