// Checks what a member gets of the machine: environment, user, rights, control
// group. Tests of what the machine does not allow are skipped with a message.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "worker/gang/file_rules.h"
#include "worker/gang/gang_member.h"
#include "worker/gang/member_cgroup.h"
#include "worker/gang/member_environment.h"
#include "worker/gang/member_user.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class Ends : public GangMembers::Observer {
 public:
  bool OnLine(GangMembers::Id, std::string_view, int64_t) override {
    return false;
  }
  void OnLogGrown(GangMembers::Id) override {}
  void OnExit(GangMembers::Id, const MemberExit& exit) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    exit_ = exit;
    ended_ = true;
    changed_.notify_all();
  }
  MemberExit Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return ended_; }));
    return exit_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  MemberExit exit_;
  bool ended_ = false;
};

class MemberConfinementTest : public ::testing::Test {
 protected:
  MemberConfinementTest() {
    folder_ = ::testing::TempDir() + "/confined-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }

  // Runs a script as a member; returns everything that it writes.
  std::string Run(const std::string& script, MemberCommand command = {}) {
    command.arguments = {"/bin/sh", "-c", script};
    command.events_path = folder_ + "/events";
    command.log_path = folder_ + "/log";
    unlink(command.log_path.c_str());
    Ends ends;
    auto processes = GangMembers::Start({}, &ends);
    EXPECT_OK(processes);
    const auto pid = (*processes)->Launch(1, command);
    EXPECT_OK(pid);
    if (pid.ok()) exit_ = ends.Wait();
    std::ifstream file(command.log_path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string folder_;
  MemberExit exit_;
};

TEST(MemberEnvironment, KeepsSecretsOut) {
  const char* const own[] = {"PATH=/bin",
                             "COMERA_TOKEN=comera_x",
                             "COMERA_TOKEN_FILE=/x",
                             "AWS_SECRET_ACCESS_KEY=x",
                             "SSH_AUTH_SOCK=/x",
                             "NCCL_DEBUG=INFO",
                             "RANK=7",
                             "OMP_NUM_THREADS=9",
                             "CUDA_VISIBLE_DEVICES=",
                             "LC_ALL=C",
                             "=odd",
                             "odd",
                             "PATHS=x",
                             nullptr};
  EXPECT_THAT(MemberEnvironment(own, {"RANK=1", "OMP_NUM_THREADS=2"}),
              UnorderedElementsAre("RANK=1", "OMP_NUM_THREADS=2", "PATH=/bin",
                                   "NCCL_DEBUG=INFO",
                                   "CUDA_VISIBLE_DEVICES=", "LC_ALL=C"));
}

TEST_F(MemberConfinementTest, TokensDoNotReachMembers) {
  setenv("COMERA_TOKEN", "comera_secret", 1);
  setenv("COMERA_TOKEN_FILE", "/some/file", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  MemberCommand command;
  command.environment = {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1",
                         "LOCAL_WORLD_SIZE=2"};
  const std::string text = Run("env; cat /proc/self/environ", command);
  EXPECT_THAT(text, HasSubstr("RANK=3"));
  EXPECT_THAT(text, HasSubstr("LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(text, Not(HasSubstr("COMERA_TOKEN")));
  EXPECT_THAT(text, Not(HasSubstr("AWS_")));
  EXPECT_THAT(text, Not(HasSubstr("comera_secret")));
  unsetenv("COMERA_TOKEN");
  unsetenv("COMERA_TOKEN_FILE");
  unsetenv("AWS_SECRET_ACCESS_KEY");
}

TEST_F(MemberConfinementTest, NothingStaysOpenAndNoRightsCanBeGained) {
  // Leaks a descriptor as a careless library would.
  const int leaked = open("/etc/hostname", O_RDONLY);
  const std::string text =
      Run("ls /proc/self/fd | wc -l; grep NoNewPrivs /proc/self/status");
  close(leaked);
  // The standard streams, and the folder that ls itself reads.
  EXPECT_THAT(text, ::testing::StartsWith("4\n"));
  EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1"));
}

TEST_F(MemberConfinementTest, RunsAsAnotherUser) {
  EXPECT_THAT(FindMemberUser("no-such-user-at-all"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(FindMemberUser("root"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  if (geteuid() != 0) {
    EXPECT_THAT(FindMemberUser("nobody"),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    GTEST_SKIP() << "only root can run ranks as others";
  }
  ASSERT_OK_AND_ASSIGN(const MemberUser user, FindMemberUser("nobody"));
  MemberCommand command;
  command.user = user;
  const std::string text =
      // Only what goes the same way keeps its order.
      Run("exec 2>&1; id -u; id -G; grep -E 'Cap(Eff|Prm|Inh)' "
          "/proc/self/status; "
          "ps -o pgid= -p $$ >/dev/null 2>&1; echo group $(cut -d' ' -f5 "
          "/proc/self/stat); cat /etc/shadow && echo READ; kill -0 " +
              std::to_string(getpid()) + " && echo SIGNALLED; echo done",
          command);
  std::stringstream lines(text);
  std::string uid, groups;
  std::getline(lines, uid);
  std::getline(lines, groups);
  EXPECT_EQ(uid, std::to_string(user.uid));
  EXPECT_THAT((" " + groups + " "), Not(HasSubstr(" 0 "))) << text;
  EXPECT_THAT(text, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(text, HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_THAT(text, Not(HasSubstr("READ")));
  EXPECT_THAT(text, Not(HasSubstr("SIGNALLED")));
  EXPECT_THAT(text, HasSubstr("done"));

  // Folders are given to the user, but not what links point to.
  const std::string mine = folder_ + "/mine";
  mkdir(mine.c_str(), 0755);
  EXPECT_OK(GiveOwnership(user, mine));
  struct stat info = {};
  ASSERT_EQ(stat(mine.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, user.uid);
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink("/etc", link.c_str()), 0);
  EXPECT_FALSE(GiveOwnership(user, link).ok());
  ASSERT_EQ(stat("/etc", &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
}

TEST_F(MemberConfinementTest, UsesItsOwnFilesOnly) {
  if (LandlockVersion() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  for (const char* name : {"mine", "other"}) {
    mkdir((folder_ + "/" + name).c_str(), 0755);
    std::ofstream(folder_ + "/" + name + "/file") << name << "'s secret\n";
  }
  std::ofstream(folder_ + "/token") << "the token\n";
  FileAccess access = SystemFiles();
  access.write.push_back(folder_ + "/mine");
  access.read.push_back(folder_ + "/not there");
  ASSERT_OK_AND_ASSIGN(FileRules rules, FileRules::Create(access));
  MemberCommand command;
  command.file_rules = std::make_shared<FileRules>(std::move(rules));
  setenv("COMERA_TEST_SECRET", "the daemon's variable", 1);
  const std::string daemon = std::to_string(getpid());
  const std::string text = Run(
      "exec 2>&1; cd " + folder_ +
          "/mine; cat file; echo more > file; mkdir a b; echo x > a/x; "
          "mv a/x b/x && echo RENAMED; cat file; "
          "cat ../token ../other/file /etc/shadow; ls ..; echo x > ../made; "
          "ln -s ../token link; cat link; ln ../token hard; cat hard; "
          "cat /proc/" +
          daemon + "/environ; ls /proc/" + daemon +
          "/fd; "
          "cat /proc/" +
          daemon + "/root" + folder_ +
          "/token; "
          "cat /proc/cpuinfo /sys/devices/system/cpu/online >/dev/null && "
          "id -u >/dev/null && echo SYSTEM",
      command);
  EXPECT_THAT(text, HasSubstr("mine's secret"));
  EXPECT_THAT(text, HasSubstr("more"));
  EXPECT_THAT(text, HasSubstr("RENAMED"));
  EXPECT_THAT(text, HasSubstr("SYSTEM"));
  EXPECT_THAT(text, Not(HasSubstr("the token")));
  EXPECT_THAT(text, Not(HasSubstr("other's secret")));
  EXPECT_THAT(text, Not(HasSubstr("root:")));
  EXPECT_THAT(text, Not(HasSubstr("the daemon's variable")));
  EXPECT_NE(::access((folder_ + "/made").c_str(), F_OK), 0);
  // Without the rules the token is read.
  EXPECT_THAT(Run("exec 2>&1; cat " + folder_ + "/token"),
              HasSubstr("the token"));
}

TEST_F(MemberConfinementTest, NeitherListsSharedMemoryNorSignalsOthers) {
  if (LandlockVersion() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  ASSERT_OK_AND_ASSIGN(FileRules rules, FileRules::Create(SystemFiles()));
  MemberCommand command;
  command.file_rules = std::make_shared<FileRules>(std::move(rules));
  const std::string file = "/dev/shm/comera_test_" + std::to_string(getpid());
  const std::string text =
      Run("exec 2>/dev/null; echo kept > " + file + " && cat " + file +
              "; rm " + file + "; ls /dev/shm && echo LISTED; kill -0 " +
              std::to_string(getpid()) +
              " && echo SIGNALLED; sleep 9 & kill $! && echo OWN",
          command);
  EXPECT_THAT(text, HasSubstr("kept"));
  EXPECT_THAT(text, HasSubstr("OWN"));
  EXPECT_THAT(text, Not(HasSubstr("LISTED")));
  constexpr int kScopesSignals = 6;
  if (LandlockVersion() >= kScopesSignals) {
    EXPECT_THAT(text, Not(HasSubstr("SIGNALLED")));
  }
}

TEST_F(MemberConfinementTest, AFolderIsOpenedToTheMembersGroupAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can run ranks as others";
  ASSERT_OK_AND_ASSIGN(const MemberUser user, FindMemberUser("nobody"));
  // In a process of its own: it changes the process's group and mask.
  const pid_t pid = fork();
  if (pid == 0) {
    umask(077);
    const bool opened = OpenToMembers(user, folder_).ok();
    mkdir((folder_ + "/made").c_str(), 0755);
    std::ofstream(folder_ + "/made/file") << "x";
    _exit(opened ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  for (const auto& [name, mode] : std::map<std::string, mode_t>{
           {"", 0750}, {"/made", 0750}, {"/made/file", 0640}}) {
    struct stat info = {};
    ASSERT_EQ(stat((folder_ + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 07777, mode) << name;
    EXPECT_EQ(info.st_uid, 0u) << name;
    EXPECT_EQ(info.st_gid, user.gid) << name;
  }
}

// It can still be killed, and dies with the daemon.
TEST_F(MemberConfinementTest, AnotherUsersProcessIsKilled) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can run ranks as others";
  MemberCommand command;
  ASSERT_OK_AND_ASSIGN(command.user, FindMemberUser("nobody"));
  command.arguments = {"/bin/sh", "-c", "sleep 1000"};
  command.events_path = folder_ + "/events";
  command.log_path = folder_ + "/log";
  Ends ends;
  auto processes = GangMembers::Start({}, &ends);
  ASSERT_OK(processes);
  ASSERT_OK((*processes)->Launch(1, command));
  (*processes)->Kill(1);
  EXPECT_EQ(ends.Wait().signal, SIGKILL);
}

TEST_F(MemberConfinementTest, ControlGroupKillsWhatLeftTheProcessGroup) {
  auto cgroups = MemberCgroups::Create();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status();
  MemberCgroups::Limits limits;
  limits.memory_bytes = int64_t{1} << 30;
  limits.processes = 64;
  limits.cores = 2;
  MemberCommand command;
  ASSERT_OK_AND_ASSIGN(
      command.cgroup,
      (*cgroups)->Make("test-" + std::to_string(getpid()), limits));
  const std::string path = command.cgroup->path();
  EXPECT_TRUE(command.cgroup->Empty());
  // Starting fails if the process cannot join the group.
  const std::string text =
      Run("grep -q test- /proc/self/cgroup || exit 9; "
          "setsid sleep 1000 & echo child $!; sleep 0.2",
          command);
  EXPECT_EQ(exit_.code, 0);
  EXPECT_TRUE(command.cgroup->Empty());
  const size_t at = text.find("child ");
  ASSERT_NE(at, std::string::npos) << text;
  // The process has disappeared, or is dead but not yet reaped.
  std::ifstream status(
      "/proc/" + std::to_string(std::stoi(text.substr(at + 6))) + "/stat");
  std::string stat_line;
  std::getline(status, stat_line);
  EXPECT_TRUE(stat_line.empty() || stat_line.find(") Z ") != std::string::npos)
      << stat_line;
  if ((*cgroups)->controllers().find("memory") != std::string::npos) {
    std::ifstream max(path + "/memory.max");
    int64_t bytes = 0;
    max >> bytes;
    EXPECT_EQ(bytes, limits.memory_bytes);
  }
  command.cgroup.reset();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(MemberCgroups, AFolderThatIsNoneIsAReason) {
  EXPECT_THAT(MemberCgroups::Create(::testing::TempDir()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(MemberCgroups::Create("/proc"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace comera::worker
