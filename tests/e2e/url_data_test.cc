// Data by URL with real processes: a gang on two workers trains from a file
// that each of them fetches, and workers that may read no URLs say so.
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"
#include "tests/worker/object_store/object_server.h"

namespace comera::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr absl::Duration kBound = absl::Seconds(120);
constexpr char kSecret[] = "not-for-members";

class UrlDataTest : public ::testing::Test {
 protected:
  void Begin(const std::string& name) {
    setenv("no_proxy", "*", 1);
    setenv("AWS_ACCESS_KEY_ID", "somebody", 1);
    setenv("AWS_SECRET_ACCESS_KEY", kSecret, 1);
    folder_ = absl::StrCat(::testing::TempDir(), "/", name);
    ASSERT_OK_AND_ASSIGN(job_, WriteTinyJob(folder_));
    // The objects lie where nobody looks for local files.
    std::string text;
    for (int i = 0; i < 60; ++i) {
      ASSERT_OK_AND_ASSIGN(
          const std::string file,
          ReadFile(absl::StrCat(folder_, "/corpus/module_", i, ".py")));
      absl::StrAppend(&text, file, "\n");
    }
    ASSERT_OK(MakeDirectories(folder_ + "/objects/corpora"));
    ASSERT_OK(WriteFileAtomically(folder_ + "/objects/corpora/code.txt", text));
    std::filesystem::remove_all(folder_ + "/corpus");
    objects_ = std::make_unique<ObjectServer>(folder_ + "/objects");
    ASSERT_NE(objects_->port(), "");
    server_ = std::make_unique<Process>(
        std::vector<std::string>{
            Binary("server/comera-server"), "--listen=127.0.0.1:0",
            absl::StrCat("--data_dir=", folder_, "/s"),
            absl::StrCat("--port_file=", folder_, "/port")},
        folder_ + "/server.log");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(folder_ + "/port"));
  }

  std::unique_ptr<Process> StartWorker(const std::string& name,
                                       const std::string& address,
                                       std::vector<std::string> flags) {
    flags.insert(
        flags.begin(),
        {Binary("worker/comera-worker"), absl::StrCat("--server=", address_),
         absl::StrCat("--name=", name), absl::StrCat("--address=", address),
         "--slots=1", absl::StrCat("--data_dir=", folder_, "/", name),
         absl::StrCat("--trainer=", Binary("worker/trainer/comera-trainer"))});
    return std::make_unique<Process>(flags,
                                     absl::StrCat(folder_, "/", name, ".log"));
  }

  // Submits the job with this training text; returns its watched events.
  std::vector<Json> Train(const std::string& url, int processes, int* code) {
    Process client({Binary("client/comera"),
                    "submit",
                    job_,
                    "--watch",
                    "-o",
                    "json",
                    "--server",
                    address_,
                    "--set",
                    absl::StrCat("data.text.train=[\"", url, "\"]"),
                    "--set",
                    "data.text.validation_fraction=0.1",
                    "--set",
                    absl::StrCat("resources.processes=", processes),
                    "--set",
                    "objective.early.steps=20",
                    "--set",
                    "objective.late.target_loss=6.9",
                    "--set",
                    "objective.late.target_ratio=1"},
                   folder_ + "/client.log");
    std::vector<Json> events;
    while (const auto line = client.ReadLine(kBound)) {
      events.push_back(Json::parse(*line, nullptr, false));
    }
    *code = client.Wait(kBound).value_or(-1);
    return events;
  }

  static std::string Dump(const std::vector<Json>& events) {
    std::string text;
    for (const Json& event : events) absl::StrAppend(&text, event.dump(), "\n");
    return text;
  }

  std::string folder_, job_, address_;
  std::unique_ptr<ObjectServer> objects_;
  std::unique_ptr<Process> server_;
};

TEST_F(UrlDataTest, AGangTrainsFromAFileThatEachWorkerFetches) {
  ASSERT_NO_FATAL_FAILURE(Begin("url_gang"));
  const std::vector<std::string> flags = {
      "--data_url=s3://corpora/",
      absl::StrCat("--s3_endpoint=", objects_->Url(""))};
  const auto first = StartWorker("first", "127.0.0.2", flags);
  const auto second = StartWorker("second", "127.0.0.3", flags);
  int code = -1;
  const std::vector<Json> events =
      Train("s3://corpora/code.txt", /*processes=*/2, &code);
  ASSERT_EQ(code, 0) << Dump(events);
  EXPECT_EQ(events.back()["state_change"].value("outcome", ""), "TARGET_MET")
      << Dump(events);
  ASSERT_OK_AND_ASSIGN(const std::string requests,
                       ReadFile(folder_ + "/objects/requests"));
  int gets = 0;
  for (size_t at = requests.find("GET "); at != std::string::npos;
       at = requests.find("GET ", at + 1)) {
    ++gets;
  }
  EXPECT_EQ(gets, 2) << requests;
  // The daemons' logs tell nothing of the key.
  for (const char* name : {"/first.log", "/second.log", "/server.log"}) {
    ASSERT_OK_AND_ASSIGN(const std::string log, ReadFile(folder_ + name));
    EXPECT_THAT(log, Not(HasSubstr(kSecret)));
  }
}

TEST_F(UrlDataTest, MembersThatGetDifferentBytesDoNotTrain) {
  ASSERT_NO_FATAL_FAILURE(Begin("url_changed"));
  // As many samples and equal labels, because only the order of two lines
  // differs.
  const std::string path = "/corpora/code.txt";
  ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(folder_ + "/objects" + path));
  const size_t line = text.find('\n', text.size() / 2) + 1;
  const size_t second = text.find('\n', line) + 1;
  const size_t end = text.find('\n', second) + 1;
  text = absl::StrCat(text.substr(0, line), text.substr(second, end - second),
                      text.substr(line, second - line), text.substr(end));
  ASSERT_OK(MakeDirectories(folder_ + "/others/corpora"));
  ASSERT_OK(WriteFileAtomically(folder_ + "/others" + path, text));
  const ObjectServer others(folder_ + "/others");
  const auto flags = [](const ObjectServer& server) {
    return std::vector<std::string>{
        "--data_url=s3://corpora/",
        absl::StrCat("--s3_endpoint=", server.Url(""))};
  };
  const auto first = StartWorker("first", "127.0.0.2", flags(*objects_));
  const auto other = StartWorker("second", "127.0.0.3", flags(others));
  int code = -1;
  const std::vector<Json> events =
      Train("s3://corpora/code.txt", /*processes=*/2, &code);
  EXPECT_NE(code, 0);
  EXPECT_THAT(Dump(events), HasSubstr("DATA"));
  EXPECT_THAT(Dump(events), HasSubstr("differ")) << Dump(events);
  EXPECT_THAT(Dump(events), Not(HasSubstr("\"metrics\"")));
}

TEST_F(UrlDataTest, AJobOnThisMachineReadsWhatItsCommandLineAllows) {
  ASSERT_NO_FATAL_FAILURE(Begin("url_run"));
  server_.reset();
  const auto run = [&](const std::vector<std::string>& flags, int* code) {
    std::vector<std::string> arguments = {
        Binary("client/comera"),
        "run",
        job_,
        "-o",
        "json",
        "--data-dir",
        folder_ + "/data",
        "--model-dir",
        folder_ + "/model",
        "--server-binary",
        Binary("server/comera-server"),
        "--worker-binary",
        Binary("worker/comera-worker"),
        "--trainer-binary",
        Binary("worker/trainer/comera-trainer"),
        "--set",
        "data.text.train=[\"s3://corpora/code.txt\"]",
        "--set",
        "data.text.validation_fraction=0.1",
        "--set",
        "resources.processes=1",
        "--set",
        "objective.early.steps=20",
        "--set",
        "objective.late.target_loss=6.9",
        "--set",
        "objective.late.target_ratio=1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    Process client(arguments, folder_ + "/run.log");
    std::vector<Json> events;
    while (const auto line = client.ReadLine(kBound)) {
      events.push_back(Json::parse(*line, nullptr, false));
    }
    *code = client.Wait(kBound).value_or(-1);
    return events;
  };
  int code = -1;
  EXPECT_THAT(run({}, &code), ::testing::IsEmpty());
  EXPECT_NE(code, 0);
  ASSERT_OK_AND_ASSIGN(const std::string log, ReadFile(folder_ + "/run.log"));
  EXPECT_THAT(log, HasSubstr("data.text.train[0]"));
  EXPECT_THAT(log, HasSubstr("--data-url"));
  const std::vector<Json> events = run(
      {"--data-url=s3://corpora/", "--s3-endpoint", objects_->Url("")}, &code);
  ASSERT_EQ(code, 0) << Dump(events);
  EXPECT_EQ(events.back()["state_change"].value("outcome", ""), "TARGET_MET")
      << Dump(events);
}

TEST_F(UrlDataTest, AWorkerThatMayReadNoUrlsNamesFieldAndFlag) {
  ASSERT_NO_FATAL_FAILURE(Begin("url_refused"));
  const auto worker = StartWorker("alone", "127.0.0.2", {});
  int code = -1;
  const std::vector<Json> events =
      Train("s3://corpora/code.txt", /*processes=*/1, &code);
  EXPECT_NE(code, 0);
  EXPECT_THAT(Dump(events), HasSubstr("data.text.train[0]"));
  EXPECT_THAT(Dump(events), HasSubstr("--data_url"));
  // Others are refused when they are submitted.
  EXPECT_THAT(Train("gs://corpora/code.txt", 1, &code), ::testing::IsEmpty());
  EXPECT_NE(code, 0);
  ASSERT_OK_AND_ASSIGN(const std::string log,
                       ReadFile(folder_ + "/client.log"));
  EXPECT_THAT(log, HasSubstr("data.text.train[0]"));
  EXPECT_THAT(log, HasSubstr("gs:// is not supported"));
}

}  // namespace
}  // namespace comera::e2e
