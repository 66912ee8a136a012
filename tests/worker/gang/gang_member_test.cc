// Starts real processes as members and checks output, signals, leftovers and
// ends.

#include "worker/gang/gang_member.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/gang/stray_processes.h"

namespace comera::worker {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class Recorder : public GangMembers::Observer {
 public:
  bool OnLine(GangMembers::Id id, std::string_view line, int64_t end) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (line.empty() || line[0] != '{') return false;
    lines_[id].emplace_back(line);
    ends_[id] = end;
    changed_.notify_all();
    return true;
  }
  void OnLogGrown(GangMembers::Id id) override {}
  void OnExit(GangMembers::Id id, const MemberExit& exit) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    exits_[id] = exit;
    changed_.notify_all();
  }

  bool WaitForLine(GangMembers::Id id) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return !lines_[id].empty(); });
  }
  MemberExit WaitForExit(GangMembers::Id id) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20),
                                  [&] { return exits_.count(id) > 0; }));
    return exits_[id];
  }
  std::vector<std::string> lines(GangMembers::Id id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_[id];
  }
  // The place behind the last line.
  int64_t end(GangMembers::Id id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ends_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<GangMembers::Id, int64_t> ends_;
  std::map<GangMembers::Id, std::vector<std::string>> lines_;
  std::map<GangMembers::Id, MemberExit> exits_;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

class GangMemberTest : public testing::Test {
 protected:
  GangMemberTest() {
    folder_ = testing::TempDir() + "/rank-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }

  std::unique_ptr<GangMembers> Start(GangMembers::Options options = {}) {
    auto processes = GangMembers::Start(options, &recorder_);
    EXPECT_OK(processes);
    return *std::move(processes);
  }

  MemberCommand Do(const std::string& what) const {
    MemberCommand command;
    command.arguments = {getenv("FAKE_TRAINER"), "--do=" + what};
    command.log_path = Log(what);
    command.events_path = folder_ + "/" + what + ".events";
    return command;
  }

  // Starts a member and ends the object that started it.
  pid_t LeaveBehind(const std::string& what) {
    GangMembers::Options options;
    options.mark = folder_;
    auto processes = Start(options);
    MemberCommand command = Do(what);
    command.survives = true;
    const auto pid = processes->Launch(1, command);
    EXPECT_OK(pid);
    EXPECT_TRUE(recorder_.WaitForLine(1));
    processes->Leave();
    return *pid;
  }

  // Has another object take over the member.
  std::unique_ptr<GangMembers> Adopt(pid_t pid, const std::string& what,
                                     int64_t offset, Recorder* recorder,
                                     GangMembers::Options options = {}) {
    options.mark = folder_;
    auto processes = GangMembers::Start(options, recorder);
    EXPECT_OK(processes);
    AdoptedMember member;
    member.pid = pid;
    member.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    EXPECT_GE(member.pidfd, 0);
    member.events_path = Do(what).events_path;
    member.events_offset = offset;
    member.log_path = Log(what);
    (*processes)->Adopt(1, member);
    return *std::move(processes);
  }

  std::string Log(const std::string& what) const {
    return folder_ + "/" + what + ".log";
  }

  std::string folder_;
  Recorder recorder_;
};

TEST_F(GangMemberTest, GivesLinesAndTheEnd) {
  auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("succeed")));
  const MemberExit exit = recorder_.WaitForExit(1);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.code, 0);
  EXPECT_GT(exit.peak_memory_bytes, 1 << 20);
  EXPECT_FALSE(exit.out_of_memory_kill);
  ASSERT_EQ(recorder_.lines(1).size(), 1);
  EXPECT_THAT(recorder_.lines(1)[0], HasSubstr("heartbeat"));
}

TEST_F(GangMemberTest, TellsExitCodeAndLogTail) {
  auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("fail")));
  const MemberExit exit = recorder_.WaitForExit(1);
  EXPECT_EQ(exit.code, 1);
  EXPECT_EQ(exit.log_tail, "a line about the data\n");
  EXPECT_EQ(ReadAll(Log("fail")), "a line about the data\n");
}

TEST_F(GangMemberTest, TellsTheSignal) {
  auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("crash")));
  const MemberExit exit = recorder_.WaitForExit(1);
  EXPECT_EQ(exit.signal, SIGABRT);
  EXPECT_THAT(exit.log_tail, HasSubstr("about to crash\n"));
  // The tail includes an unfinished line.
  EXPECT_THAT(exit.log_tail, HasSubstr("unfinished"));
}

TEST_F(GangMemberTest, StopLetsItEndInGoodOrder) {
  auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("wait")));
  ASSERT_TRUE(recorder_.WaitForLine(1));
  processes->Stop(1);
  const MemberExit exit = recorder_.WaitForExit(1);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.code, 0);
  EXPECT_EQ(exit.log_tail, "stopping as asked\n");
}

TEST_F(GangMemberTest, KillsWhatIgnoresStop) {
  GangMembers::Options options;
  options.grace = absl::Milliseconds(50);
  auto processes = Start(options);
  ASSERT_OK(processes->Launch(1, Do("ignore_term")));
  ASSERT_TRUE(recorder_.WaitForLine(1));
  processes->Stop(1);
  EXPECT_EQ(recorder_.WaitForExit(1).signal, SIGKILL);
}

TEST_F(GangMemberTest, LogGetsWhatIsNoEventAndTheTooLong) {
  auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("spam")));
  EXPECT_EQ(recorder_.WaitForExit(1).code, 0);
  const std::string log = ReadAll(Log("spam"));
  EXPECT_EQ(std::count(log.begin(), log.end(), 's'), 1500 * 999 + 1);
  // The line is cut at 1 MiB.
  EXPECT_EQ(std::count(log.begin(), log.end(), 'x'), 1 << 20);
  EXPECT_THAT(log, HasSubstr("plain words"));
  // A line that only resembles an event is offered to the observer.
  EXPECT_EQ(recorder_.lines(1)[0], "{\"not\": an event}");
}

TEST_F(GangMemberTest, BoundsTheLog) {
  GangMembers::Options options;
  options.max_log_bytes = 1000;
  auto processes = Start(options);
  ASSERT_OK(processes->Launch(1, Do("spam")));
  const MemberExit exit = recorder_.WaitForExit(1);
  EXPECT_EQ(exit.code, 0);
  EXPECT_EQ(ReadAll(Log("spam")).size(), 1000);
  // The last words are those of the member all the same.
  EXPECT_EQ(exit.log_tail.size(), 1024);
  EXPECT_THAT(exit.log_tail, EndsWith("xxx\nplain words\n"));
}

TEST_F(GangMemberTest, EventsThatWereNeverWrittenAreNotRead) {
  auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("stretch")));
  ASSERT_TRUE(recorder_.WaitForLine(1));
  EXPECT_EQ(recorder_.WaitForExit(1).code, 0);
  // The line behind the gap of 4 TiB.
  EXPECT_EQ(recorder_.lines(1).size(), 1);
  EXPECT_GT(recorder_.end(1), int64_t{4} << 40);
}

TEST_F(GangMemberTest, AProcessLeftBehindEndsWithTheMember) {
  auto processes = Start();
  ASSERT_OK_AND_ASSIGN(const pid_t pid, processes->Launch(1, Do("orphan")));
  EXPECT_EQ(recorder_.WaitForExit(1).code, 0);
  // Its group has no living member: those that init has not reaped yet are
  // zombies, which kill still finds, so this asks until they have disappeared.
  for (int i = 0; i < 10000 && kill(-pid, 0) == 0; ++i) sched_yield();
  SUCCEED();
}

TEST_F(GangMemberTest, ChildHasItsOwnGroupNoInputAndTheAddedEnvironment) {
  auto processes = Start();
  MemberCommand command = Do("environment");
  setenv("RANK", "replaced", 1);
  unsetenv("OMP_NUM_THREADS");
  command.environment = {"RANK=3", "WORLD_SIZE=4"};
  ASSERT_OK(processes->Launch(1, command));
  EXPECT_THAT(recorder_.WaitForExit(1).log_tail,
              HasSubstr("RANK=3 WORLD_SIZE=4 LOCAL_RANK=- "
                        "LOCAL_WORLD_SIZE=- OMP_NUM_THREADS=- stdin=0 pgid=1"));
}

TEST_F(GangMemberTest, AMissingProgramIsAnError) {
  auto processes = Start();
  MemberCommand command = Do("missing");
  command.arguments = {"/no/such/program"};
  EXPECT_THAT(
      processes->Launch(1, command),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/program")));
  command = Do("denied");
  command.arguments = {"/etc"};
  EXPECT_THAT(processes->Launch(2, command),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(GangMemberTest, DestructionKillsAndReaps) {
  auto processes = Start();
  ASSERT_OK_AND_ASSIGN(const pid_t pid,
                       processes->Launch(1, Do("ignore_term")));
  ASSERT_TRUE(recorder_.WaitForLine(1));
  processes.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_EQ(recorder_.WaitForExit(1).signal, SIGKILL);
}

TEST_F(GangMemberTest, AMemberThatWasLeftGoesOnUnderItsSuccessor) {
  const pid_t pid = LeaveBehind("wait");
  EXPECT_EQ(kill(pid, 0), 0);
  Recorder next;
  const auto processes = Adopt(pid, "wait", /*offset=*/0, &next);
  // It is read once more, at the same place.
  ASSERT_TRUE(next.WaitForLine(1));
  EXPECT_EQ(next.lines(1), recorder_.lines(1));
  EXPECT_EQ(next.end(1), recorder_.end(1));
  processes->Stop(1);
  const MemberExit exit = next.WaitForExit(1);
  // It is a child of this test, but not of that object.
  EXPECT_FALSE(exit.known);
  EXPECT_EQ(exit.log_tail, "stopping as asked\n");
  EXPECT_GT(exit.peak_memory_bytes, 1 << 20);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST_F(GangMemberTest, WhatAMemberWroteWhileNobodyReadIsReadAfterItsEnd) {
  const pid_t pid = LeaveBehind("succeed_when_told");
  const int64_t read_to = recorder_.end(1);
  kill(pid, SIGTERM);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  Recorder next;
  GangMembers::Options options;
  options.mark = folder_;
  ASSERT_OK_AND_ASSIGN(const auto processes,
                       GangMembers::Start(options, &next));
  AdoptedMember member;
  member.pid = pid;
  member.events_path = Do("succeed_when_told").events_path;
  member.events_offset = read_to;
  member.log_path = Log("succeed_when_told");
  processes->Adopt(1, member);
  EXPECT_EQ(next.WaitForExit(1).log_tail, "waiting\ntold\n");
  EXPECT_EQ(next.lines(1).size(), 1u);
}

TEST_F(GangMemberTest, AnAdoptedMemberIsKilledWithWhatItStarted) {
  const pid_t pid = LeaveBehind("ignore_term");
  Recorder next;
  const auto processes = Adopt(pid, "ignore_term", /*offset=*/0, &next);
  processes->Stop(1, absl::Milliseconds(50));
  next.WaitForExit(1);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_THAT(MarkedProcesses(folder_), ::testing::IsEmpty());
}

TEST_F(GangMemberTest, AnAdoptedMemberThatTheKernelKilledIsOutOfMemory) {
  for (const bool killed_for_memory : {true, false}) {
    const pid_t pid = LeaveBehind("wait");
    Recorder next;
    GangMembers::Options options;
    std::atomic<int64_t> kills{7};
    options.out_of_memory_kills = [&] { return kills.load(); };
    const auto processes = Adopt(pid, "wait", /*offset=*/0, &next, options);
    ASSERT_TRUE(next.WaitForLine(1));
    if (killed_for_memory) ++kills;
    kill(pid, SIGKILL);
    const MemberExit exit = next.WaitForExit(1);
    EXPECT_FALSE(exit.known);
    EXPECT_EQ(exit.out_of_memory_kill, killed_for_memory);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  }
}

TEST_F(GangMemberTest, EventsThatAreForgottenTakeNoSpace) {
  auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("wait")));
  ASSERT_TRUE(recorder_.WaitForLine(1));
  const std::string path = Do("wait").events_path;
  const std::string before = ReadAll(path);
  ASSERT_FALSE(before.empty());
  processes->ForgetEvents(1, static_cast<int64_t>(before.size()));
  processes->Stop(1);
  recorder_.WaitForExit(1);
  // The place of what comes later stays the same.
  EXPECT_EQ(ReadAll(path).size(), before.size());
  EXPECT_EQ(recorder_.lines(1).size(), 1u);
}

bool IsZombie(pid_t pid) {
  const std::string stat = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "Z";
}

// A process that a member starts in a session of its own does not hold the
// slot.
TEST_F(GangMemberTest, Complaint16_NothingThatARankStartedOutlivesIt) {
  for (const bool adopts : {false, true}) {
    GangMembers::Options options;
    options.mark = folder_;
    options.adopts_orphans = adopts;
    if (adopts) AdoptOrphans();
    const auto processes = Start(options);
    const GangMembers::Id id = adopts ? 2 : 1;
    ASSERT_OK(processes->Launch(id, Do("daemon")));
    EXPECT_EQ(recorder_.WaitForExit(id).code, 0);
    EXPECT_THAT(MarkedProcesses(folder_), ::testing::IsEmpty());
    const std::string log = ReadAll(Log("daemon"));
    const int pid = atoi(log.substr(log.rfind("daemon=") + 7).c_str());
    ASSERT_GT(pid, 1);
    // If it was not adopted, init reaps it at some later time.
    EXPECT_TRUE(kill(pid, 0) != 0 || (!adopts && IsZombie(pid))) << log;
  }
}

// A process may change its mark, and is found by whose child it is then.
TEST_F(GangMemberTest, WhatBearsAnothersMarkDoesNotOutliveTheMemberEither) {
  GangMembers::Options options;
  options.mark = folder_;
  options.adopts_orphans = true;
  AdoptOrphans();
  const auto processes = Start(options);
  ASSERT_OK(processes->Launch(1, Do("impostor")));
  EXPECT_EQ(recorder_.WaitForExit(1).code, 0);
  const std::string log = ReadAll(Log("impostor"));
  const int pid = atoi(log.substr(log.rfind("daemon=") + 7).c_str());
  ASSERT_GT(pid, 1);
  EXPECT_NE(kill(pid, 0), 0) << log;
}

TEST_F(GangMemberTest, Complaint02_AStoppedProcessIsKilledWithinItsGrace) {
  const auto processes = Start();
  ASSERT_OK(processes->Launch(1, Do("freeze")));
  ASSERT_TRUE(recorder_.WaitForLine(1));
  // It ignores SIGTERM.
  processes->Stop(1, absl::Milliseconds(50));
  EXPECT_EQ(recorder_.WaitForExit(1).signal, SIGKILL);
}

}  // namespace
}  // namespace comera::worker
