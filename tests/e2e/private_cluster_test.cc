// Attacks the private coordinator of `comera run` as another user of the
// machine would, who reaches its ports and sees its command lines.
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/embedded_cluster.h"
#include "client/training_client.h"
#include "common/files.h"
#include "common/http/web_fetch.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

using client::EmbeddedCluster;
using client::TrainingClient;
using ::testing::HasSubstr;
using ::testing::Not;

class PrivateClusterTest : public ::testing::Test {
 protected:
  PrivateClusterTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    options_.server_binary = Binary("server/comera-server");
    options_.worker_binary = Binary("worker/comera-worker");
    options_.trainer_binary = Binary("worker/trainer/comera-trainer");
    options_.data_dir = absl::StrCat(::testing::TempDir(), "/", info->name());
    options_.status_file = options_.data_dir + ".status";
  }

  std::unique_ptr<TrainingClient> Client(const EmbeddedCluster& cluster,
                                         const ChannelSecurity& security) {
    TrainingClient::Options options;
    options.security = security;
    return TrainingClient::Connect(cluster.address(), options);
  }

  // Waits until the coordinator knows a worker.
  void AwaitWorker(TrainingClient& client) {
    while (true) {
      ASSERT_OK_AND_ASSIGN(const auto workers, client.ListWorkers());
      if (!workers.empty() && workers[0].connected()) {
        EXPECT_EQ(workers[0].name(), "workers/local");
        return;
      }
      std::this_thread::yield();
    }
  }

  EmbeddedCluster::Options options_;
};

TEST_F(PrivateClusterTest, CallsWithoutItsTokenAreRefused) {
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  const auto stranger = Client(*cluster, {});
  EXPECT_THAT(stranger->List({}, 0),
              StatusIs(absl::StatusCode::kUnauthenticated));
  // It would run as the owner.
  v1::JobSpec program;
  program.mutable_program()->set_entry("evil.py");
  EXPECT_THAT(stranger->Submit(program),
              StatusIs(absl::StatusCode::kUnauthenticated));
  WebRequest request;
  request.plain_http = true;
  request.url = absl::StrCat("http://", cluster->http_address(), "/v1/jobs");
  ASSERT_OK_AND_ASSIGN(WebAnswer answer, FetchWeb(request));
  EXPECT_EQ(answer.code, 401);

  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadFile(cluster->security().token_file));
  const std::string token(absl::StripAsciiWhitespace(text));
  request.headers.emplace_back("Authorization", "Bearer " + token);
  ASSERT_OK_AND_ASSIGN(answer, FetchWeb(request));
  EXPECT_EQ(answer.code, 200);
  const auto owner = Client(*cluster, cluster->security());
  EXPECT_OK(owner->List({}, 0));
  AwaitWorker(*owner);
}

TEST_F(PrivateClusterTest, NothingThatOthersSeeHoldsAToken) {
  const mode_t mask = umask(022);
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  umask(mask);
  struct stat info = {};
  ASSERT_EQ(stat(options_.data_dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_OK_AND_ASSIGN(const std::string status,
                       ReadFile(options_.status_file));
  const auto pids = nlohmann::json::parse(status);
  for (const char* name : {"/admin.token", "/worker.token"}) {
    const std::string path = options_.data_dir + name;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(path));
    const std::string token(absl::StripAsciiWhitespace(text));
    EXPECT_THAT(status, Not(HasSubstr(token)));
    for (const char* child : {"server_pid", "worker_pid"}) {
      for (const char* seen : {"/cmdline", "/environ"}) {
        ASSERT_OK_AND_ASSIGN(
            const std::string shown,
            ReadFile(absl::StrCat("/proc/", pids[child].get<int>(), seen)));
        EXPECT_THAT(shown, Not(HasSubstr(token))) << child << seen;
      }
    }
    for (const auto& log :
         std::filesystem::directory_iterator(options_.data_dir + "/logs")) {
      EXPECT_THAT(*ReadFile(log.path().string()), Not(HasSubstr(token)));
    }
  }
}

TEST_F(PrivateClusterTest, ALaterRunTakesTheTokensOfAnEarlierOne) {
  const std::string worker_token = options_.data_dir + "/worker.token";
  std::string first;
  for (int run = 0; run < 2; ++run) {
    ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
    const auto owner = Client(*cluster, cluster->security());
    ASSERT_NO_FATAL_FAILURE(AwaitWorker(*owner));
    ASSERT_OK_AND_ASSIGN(const std::string token, ReadFile(worker_token));
    if (run == 0) first = token;
    EXPECT_EQ(token, first);
  }
  // One that no coordinator knows is replaced.
  ASSERT_OK(WriteFileAtomically(worker_token, "comera_a_b\n", 0600));
  ASSERT_OK_AND_ASSIGN(auto cluster, EmbeddedCluster::Start(options_));
  const auto owner = Client(*cluster, cluster->security());
  AwaitWorker(*owner);
}

}  // namespace
}  // namespace comera::e2e
