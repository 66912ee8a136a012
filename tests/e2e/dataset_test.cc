// Datasets with real processes: a job trains from an upload alone, and an
// upload survives kill -9 of the coordinator.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kBound = absl::Seconds(120);

class DatasetTest : public ::testing::Test {
 protected:
  void Begin(const std::string& name) {
    folder_ = absl::StrCat(::testing::TempDir(), "/", name);
    ASSERT_OK(MakeDirectories(folder_));
    StartServer("127.0.0.1:0");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(folder_ + "/port"));
  }

  void StartServer(const std::string& listen) {
    server_ = std::make_unique<Process>(
        std::vector<std::string>{
            Binary("server/comera-server"), absl::StrCat("--listen=", listen),
            absl::StrCat("--data_dir=", folder_, "/server"),
            absl::StrCat("--port_file=", folder_, "/port")},
        folder_ + "/server.log");
  }

  std::unique_ptr<Process> Comera(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {Binary("client/comera"), "--server", address_});
    return std::make_unique<Process>(
        arguments, absl::StrCat(folder_, "/client-", ++clients_, ".log"));
  }

  // Runs `comera` to its end; returns the first line of its output.
  std::string Run(const std::vector<std::string>& arguments, int code = 0) {
    auto client = Comera(arguments);
    const auto line = client->ReadLine(kBound);
    while (client->ReadLine(kBound)) {
    }
    EXPECT_EQ(client->Wait(kBound), code) << Log();
    return line.value_or("");
  }

  std::string Log() {
    const auto text =
        ReadFile(absl::StrCat(folder_, "/client-", clients_, ".log"));
    return text.ok() ? *text : "";
  }

  std::string folder_, address_;
  int clients_ = 0;
  std::unique_ptr<Process> server_;
};

TEST_F(DatasetTest, AJobTrainsFromAnUploadAlone) {
  ASSERT_NO_FATAL_FAILURE(Begin("dataset"));
  ASSERT_OK_AND_ASSIGN(const std::string job, WriteTinyJob(folder_));
  EXPECT_EQ(Run({"datasets", "upload", "tiny", folder_ + "/corpus"}),
            "datasets/tiny@1");
  std::filesystem::remove_all(folder_ + "/corpus");
  Process worker(
      {Binary("worker/comera-worker"), absl::StrCat("--server=", address_),
       "--name=w", "--slots=2", absl::StrCat("--data_dir=", folder_, "/worker"),
       absl::StrCat("--trainer=", Binary("worker/trainer/comera-trainer"))},
      folder_ + "/worker.log");
  // Two members share one cache.
  auto client = Comera({"submit", job, "--watch", "-o", "json", "--set",
                        "data.code_directory.roots=[datasets/tiny]", "--set",
                        "objective.early.steps=60", "--set",
                        "objective.late.target_loss=5.9", "--set",
                        "objective.late.target_ratio=1"});
  std::string id, outcome;
  bool refused = false;
  while (const auto line = client->ReadLine(kBound)) {
    const Json event = Json::parse(*line, nullptr, false);
    ASSERT_TRUE(event.is_object()) << *line;
    if (event.contains("metrics") && !refused) {
      // Data that a running job needs stay.
      EXPECT_EQ(Run({"datasets", "delete", "tiny"}, 1), "");
      EXPECT_TRUE(absl::StrContains(Log(), "is needed by jobs/")) << Log();
      refused = true;
    }
    if (event.contains("state_change")) {
      id = event["job"].get<std::string>();
      outcome = event["state_change"].value("outcome", "");
    }
  }
  EXPECT_EQ(client->Wait(kBound), 0) << Log();
  EXPECT_TRUE(refused);
  EXPECT_EQ(outcome, "TARGET_MET");
  auto get = Comera({"get", id, "-o", "json"});
  std::string text;
  while (const auto line = get->ReadLine(kBound)) text += *line;
  const Json record = Json::parse(text, nullptr, false);
  ASSERT_TRUE(record.is_object()) << text;
  EXPECT_EQ(record["datasets"][0]["version"], "datasets/tiny@1");
  EXPECT_TRUE(
      absl::StrContains(Run({"evaluate", id, "--data", job, "--set",
                             "data.code_directory.roots=[datasets/tiny]"}),
                        "loss"))
      << Log();
  Run({"datasets", "delete", "tiny"});
}

TEST_F(DatasetTest, AnUploadSurvivesAKillOfTheCoordinator) {
  ASSERT_NO_FATAL_FAILURE(Begin("killed"));
  const std::string file = folder_ + "/big.bin";
  {
    std::ofstream out(file, std::ios::binary);
    std::string block(1 << 20, '\0');
    for (int i = 0; i < 200; ++i) {
      block[0] = static_cast<char>(i);
      block[1] = 'x';
      out << block;
    }
  }
  ASSERT_OK_AND_ASSIGN(const std::string contents, ReadFile(file));
  const std::string part =
      absl::StrCat(folder_, "/server/blobs/partial/", Sha256Hex(contents));
  auto client = Comera({"datasets", "upload", "big", file});
  // Waits until the upload is in the middle of the file.
  const absl::Time deadline = absl::Now() + kBound;
  struct stat info = {};
  while (absl::Now() < deadline &&
         (stat(part.c_str(), &info) != 0 || info.st_size < (8 << 20))) {
    std::this_thread::yield();
  }
  kill(server_->pid(), SIGKILL);
  ASSERT_TRUE(server_->Wait(kBound).has_value());
  const bool broken = stat(part.c_str(), &info) == 0;
  EXPECT_TRUE(broken) << "the upload was over before the kill";
  StartServer(address_);
  EXPECT_EQ(client->ReadLine(kBound), "datasets/big@1") << Log();
  EXPECT_EQ(client->Wait(kBound), 0);
  EXPECT_FALSE(std::filesystem::exists(part));
  Run({"datasets", "download", "big", folder_ + "/copy"});
  ASSERT_OK_AND_ASSIGN(const std::string copy,
                       ReadFile(folder_ + "/copy/big.bin"));
  EXPECT_TRUE(copy == contents);
}

}  // namespace
}  // namespace comera::e2e
