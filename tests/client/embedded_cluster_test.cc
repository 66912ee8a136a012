// Starts, kills and restarts the private cluster of `comera run`.

#include "client/embedded_cluster.h"

#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/training_client.h"
#include "common/event.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class EmbeddedClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", info->name());
    std::filesystem::create_directories(folder_);
    options_.server_binary =
        std::filesystem::absolute("tests/client/fake_server").string();
    options_.worker_binary = Script("worker", "exec tail -f /dev/null");
    options_.trainer_binary = Script("trainer", "exit 0");
    options_.data_dir = absl::StrCat(folder_, "/data");
    options_.status_file = absl::StrCat(folder_, "/status.json");
    options_.slots = 3;
    options_.restart_backoff = absl::ZeroDuration();
    options_.stop_timeout = absl::Seconds(5);
    options_.on_failure = [this](const absl::Status& status) {
      failure_ = status;
      failed_.Notify();
    };
  }

  std::string Script(const std::string& name, const std::string& body) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }

  nlohmann::json Status() {
    const auto text = ReadFile(options_.status_file);
    return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json();
  }

  // Waits for the pid that replaces `old` under `key` in the status file.
  int NextPid(const std::string& key, int old) {
    while (Status()[key] == old) std::this_thread::yield();
    return Status()[key];
  }

  static bool IsAlive(int pid) { return kill(pid, 0) == 0 || errno == EPERM; }

  std::string folder_;
  EmbeddedCluster::Options options_;
  absl::Status failure_;
  Event failed_;
};

TEST_F(EmbeddedClusterTest, ChildrenAreStartedAgainAndStopped) {
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  const std::string address = cluster->address();
  auto client = TrainingClient::Connect(address, {});
  EXPECT_OK(client->ServerVersion());
  EXPECT_EQ(Status()["server"], address);
  const int server = Status()["server_pid"];
  const int worker = Status()["worker_pid"];
  kill(server, SIGKILL);
  const int new_server = NextPid("server_pid", server);
  kill(worker, SIGKILL);
  const int new_worker = NextPid("worker_pid", worker);
  // The restarted coordinator listens at the same address.
  EXPECT_OK(client->ServerVersion());
  EXPECT_TRUE(IsAlive(new_worker));
  cluster->Stop();
  for (int pid : {server, worker, new_server, new_worker}) {
    EXPECT_FALSE(IsAlive(pid));
  }
  EXPECT_FALSE(failed_.HasHappened());
}

TEST_F(EmbeddedClusterTest, WorkerGetsItsSlotsAndTheAddress) {
  const std::string told = absl::StrCat(folder_, "/told");
  options_.worker_binary = Script(
      "worker", absl::StrCat("echo \"$@\" > ", told, ".part; mv ", told,
                             ".part ", told, "; exec tail -f /dev/null"));
  options_.worker_flags = {"--data_url=https://h/c/", "--data_url=s3://b/"};
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  while (!ReadFile(told).ok()) std::this_thread::yield();
  const std::string arguments = *ReadFile(told);
  EXPECT_THAT(arguments, HasSubstr("--slots=3"));
  EXPECT_THAT(arguments, HasSubstr("--data_root=/ "));
  EXPECT_THAT(arguments,
              HasSubstr("--data_url=https://h/c/ --data_url=s3://b/"));
  EXPECT_THAT(arguments, HasSubstr("--server=" + cluster->address()));
  EXPECT_THAT(arguments, HasSubstr("--trainer=" + options_.trainer_binary));
}

TEST_F(EmbeddedClusterTest, TokensAreItsOwnersAloneAndStay) {
  const std::string told = absl::StrCat(folder_, "/told");
  options_.worker_binary = Script(
      "worker", absl::StrCat("echo \"$@\" > ", told, ".part; mv ", told,
                             ".part ", told, "; exec tail -f /dev/null"));
  const auto mode = [](const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  };
  const std::string worker_token = options_.data_dir + "/worker.token";
  const mode_t mask = umask(022);
  for (int run = 0; run < 2; ++run) {
    ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
    EXPECT_EQ(cluster->security().token_file,
              options_.data_dir + "/admin.token");
    EXPECT_EQ(Status()["token_file"], cluster->security().token_file);
    EXPECT_EQ(mode(options_.data_dir), 0700u);
    EXPECT_EQ(mode(cluster->security().token_file), 0600u);
    EXPECT_EQ(mode(worker_token), 0600u);
    while (!ReadFile(told).ok()) std::this_thread::yield();
    const std::string arguments = *ReadFile(told);
    EXPECT_THAT(arguments, HasSubstr("--token_file=" + worker_token));
    EXPECT_THAT(arguments, Not(HasSubstr("fake-worker-token")));
  }
  umask(mask);
  // The second run went on with the first one's token.
  EXPECT_EQ(*ReadFile(options_.data_dir + "/server/tokens"), "local\n");
}

TEST_F(EmbeddedClusterTest, ALostTokenIsNamed) {
  // This coordinator makes no token, like one that has made its first.
  options_.server_binary =
      Script("server", absl::StrCat("echo 127.0.0.1:9 > ", options_.data_dir,
                                    "/port; exec tail -f /dev/null"));
  EXPECT_THAT(EmbeddedCluster::Start(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("admin.token")));
}

TEST_F(EmbeddedClusterTest, TheFolderIsClosedToOthersOrNotUsed) {
  const auto make = [&](const char* name, const char* inside, int mode) {
    options_.data_dir = absl::StrCat(folder_, "/", name);
    EXPECT_OK(MakeDirectories(options_.data_dir));
    if (*inside != 0) {
      std::ofstream(absl::StrCat(options_.data_dir, "/", inside)) << "x";
    }
    chmod(options_.data_dir.c_str(), mode);
  };
  const auto mode = [&] {
    struct stat info = {};
    EXPECT_EQ(stat(options_.data_dir.c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  // Earlier versions left the first of these.
  make("earlier", "lock", 0755);
  EXPECT_OK(EmbeddedCluster::Start(options_));
  EXPECT_EQ(mode(), 0700u);
  make("empty", "", 0777);
  EXPECT_OK(EmbeddedCluster::Start(options_));
  EXPECT_EQ(mode(), 0700u);
  make("closed", "thesis.tex", 0700);
  EXPECT_OK(EmbeddedCluster::Start(options_));
  // The default folder holds models of `comera predict`, too.
  make("default", "models", 0755);
  options_.own_data_dir = true;
  EXPECT_OK(EmbeddedCluster::Start(options_));
  EXPECT_EQ(mode(), 0700u);
  options_.own_data_dir = false;
  // Others may need these.
  make("open", "thesis.tex", 0755);
  EXPECT_THAT(
      EmbeddedCluster::Start(options_),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 700")));
  EXPECT_EQ(mode(), 0755u);
  make("shared", "lock", 01777);
  EXPECT_THAT(
      EmbeddedCluster::Start(options_),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 700")));
  EXPECT_EQ(mode(), 01777u);
}

TEST_F(EmbeddedClusterTest, CancelsWhatAnEarlierRunLeft) {
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  ASSERT_OK_AND_ASSIGN(
      const std::string name,
      ReadFile(absl::StrCat(options_.data_dir, "/server/cancelled")));
  EXPECT_EQ(name, "jobs/left");
}

TEST_F(EmbeddedClusterTest, TheJobThatGoesOnIsNotCancelled) {
  options_.kept_job = "jobs/left";
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  EXPECT_THAT(ReadFile(absl::StrCat(options_.data_dir, "/server/cancelled")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(EmbeddedClusterTest, OneAtATimePerFolder) {
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  EXPECT_THAT(EmbeddedCluster::Start(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another `comera run`")));
}

TEST_F(EmbeddedClusterTest, ACoordinatorThatEndsAtOnceIsToldWithItsLog) {
  options_.server_binary = Script("server", "echo no disk >&2; exit 7");
  EXPECT_THAT(EmbeddedCluster::Start(options_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no disk")));
}

TEST_F(EmbeddedClusterTest, AWorkerThatKeepsEndingIsGivenUp) {
  options_.worker_binary = Script("worker", "exit 7");
  options_.max_restarts = 2;
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  failed_.Wait();
  EXPECT_THAT(failure_, StatusIs(absl::StatusCode::kUnavailable,
                                 HasSubstr("exit status 7")));
}

TEST_F(EmbeddedClusterTest, AChildThatIgnoresTermIsKilled) {
  options_.worker_binary =
      Script("worker", "trap '' TERM; while :; do tail -f /dev/null; done");
  options_.stop_timeout = absl::Milliseconds(100);
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  const int worker = Status()["worker_pid"];
  cluster->Stop();
  EXPECT_FALSE(IsAlive(worker));
}

TEST_F(EmbeddedClusterTest, MissingProgramsAreNamed) {
  options_.worker_binary = "";
  EXPECT_THAT(EmbeddedCluster::Start(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("comera-worker")));
  const ClusterBinaries none = FindClusterBinaries(folder_);
  EXPECT_EQ(none.server, "");
  Script("comera-server", "");
  EXPECT_EQ(FindClusterBinaries(folder_).server,
            absl::StrCat(folder_, "/comera-server"));
  std::filesystem::create_directories(folder_ + "/client");
  EXPECT_EQ(FindClusterBinaries(folder_ + "/client").server, "");
}

}  // namespace
}  // namespace comera::client
