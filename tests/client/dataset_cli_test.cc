// Checks the client library and the CLI for datasets and models, against a
// server in this process.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/main/cli.h"
#include "client/dataset_client.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/daemon/comera_server.h"
#include "tests/server/temp_dir.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

class DatasetCliTest : public ::testing::Test {
 protected:
  DatasetCliTest() {
    options_.data_dir = folder_.path() + "/server";
    options_.datasets.blobs.min_free_bytes = 0;
    options_.shutdown_grace = absl::Seconds(1);
    StartServer("127.0.0.1:0");
    Write("in/train.tsv", "id\tlabel\n1\tyes\n2\tno\n");
    Write("in/sub/a.py", "x = 1\n");
    Write("in/.hidden", "no");
  }

  void StartServer(const std::string& listen) {
    options_.listen = listen;
    auto server = server::ComeraServer::Start(
        options_, Clock::Real(), &ids_, [](const absl::Status& status) {
          ADD_FAILURE() << "store failed: " << status;
        });
    ASSERT_OK(server);
    server_ = *std::move(server);
    address_ = server_->address();
  }

  void Write(const std::string& path, const std::string& contents) {
    const std::string name = absl::StrCat(folder_.path(), "/", path);
    ASSERT_OK(MakeDirectories(name.substr(0, name.rfind('/'))));
    std::ofstream(name, std::ios::binary) << contents;
  }

  // Runs `comera datasets ARGS`, with IN replaced by the folder of files.
  Outcome Run(const std::string& args) {
    std::ostringstream out, err;
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.server = address_;
    std::vector<std::string> words =
        absl::StrSplit(args, ' ', absl::SkipEmpty());
    for (std::string& word : words) {
      if (word.substr(0, 2) == "IN") {
        word = absl::StrCat(folder_.path(), "/in", word.substr(2));
      }
    }
    const int code = RunCli(words, environment);
    return {code, out.str(), err.str()};
  }

  std::unique_ptr<DatasetClient> Client() {
    TrainingClient::Options options;
    options.initial_backoff = options.max_backoff = absl::Milliseconds(5);
    return std::make_unique<DatasetClient>(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()),
        options);
  }

  server::TempDir folder_;
  server::RandomIdSource ids_;
  server::ComeraServer::Options options_;
  std::unique_ptr<server::ComeraServer> server_;
  std::string address_;
};

TEST_F(DatasetCliTest, UploadsListsDescribesAndDeletes) {
  Outcome run = Run("datasets upload mnli IN --label task=nli");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, "datasets/mnli@1\n");
  EXPECT_THAT(run.err, HasSubstr("left out: 1"));
  // Unchanged files give the same version.
  EXPECT_EQ(Run("datasets upload mnli IN").out, "datasets/mnli@1\n");
  EXPECT_EQ(Run("datasets upload mnli IN/train.tsv").out, "datasets/mnli@2\n");

  EXPECT_THAT(Run("datasets").out, HasSubstr("task=nli"));
  EXPECT_THAT(Run("datasets list --label task=other").out,
              Not(HasSubstr("mnli")));
  EXPECT_THAT(Run("datasets get mnli").out, HasSubstr("mnli@2"));
  EXPECT_THAT(Run("datasets files mnli@1").out, HasSubstr("sub/a.py"));
  EXPECT_THAT(Run("datasets files datasets/mnli").out,
              Not(HasSubstr("sub/a.py")));
  run = Run("datasets describe mnli");
  EXPECT_THAT(run.out, HasSubstr("TSV"));
  EXPECT_THAT(run.out, HasSubstr("no:1 yes:1"));
  // Standard output is a single document.
  for (const char* args :
       {"datasets -o json", "datasets get mnli -o json",
        "datasets files mnli -o json", "datasets describe mnli -o json"}) {
    EXPECT_TRUE(nlohmann::json::accept(Run(args).out)) << args;
  }
  EXPECT_EQ(
      Run(absl::StrCat("datasets download mnli@1 ", folder_.path(), "/copy"))
          .code,
      0);
  EXPECT_EQ(*ReadFile(folder_.path() + "/copy/sub/a.py"), "x = 1\n");

  EXPECT_EQ(Run("datasets delete mnli@1").code, 0);
  run = Run("datasets delete mnli");
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("freed"));
  EXPECT_EQ(Run("datasets get mnli").code, 5);
}

TEST_F(DatasetCliTest, UsageErrors) {
  for (const auto& [args, said] :
       std::vector<std::pair<std::string, std::string>>{
           {"datasets frobnicate", "frobnicate"},
           {"datasets upload", "which dataset?"},
           {"datasets upload d", "which files?"},
           {"datasets upload D IN", "is no dataset"},
           {"datasets upload d@1 IN", "numbered by the server"},
           {"datasets get a b", "unexpected argument `b`"},
           {"datasets get a/b", "is no dataset"},
           {"datasets download d", "which folder?"},
           {"datasets --label x", "KEY=VALUE"}}) {
    const Outcome run = Run(args);
    EXPECT_EQ(run.code, 2) << args;
    EXPECT_THAT(run.err, HasSubstr(said)) << args;
    EXPECT_EQ(run.out, "") << args;
  }
  EXPECT_EQ(Run("datasets upload d IN/none").code, 1);
  EXPECT_EQ(Run("datasets get none").code, 5);
  EXPECT_THAT(Run("datasets --help").out,
              HasSubstr("comera datasets upload mnli"));
}

TEST_F(DatasetCliTest, ModelsAndCheckpointsOfNothing) {
  EXPECT_THAT(Run("models").out, HasSubstr("VALIDATION LOSS"));
  EXPECT_EQ(Run("models none --describe").code, 5);
  EXPECT_EQ(Run("models --delete").code, 2);
  EXPECT_EQ(Run("checkpoints none").code, 5);
  EXPECT_EQ(Run("checkpoints ../x").code, 2);
  EXPECT_THAT(Run("checkpoints --help").out, HasSubstr("Examples:"));
}

TEST_F(DatasetCliTest, AnInterruptedUploadGoesOn) {
  const std::string data(40 << 20, 'b');
  Write("big", data);
  ASSERT_OK_AND_ASSIGN(const LocalFiles local,
                       FindLocalFiles({folder_.path() + "/big"}));
  auto client = Client();
  // Stops the client as Ctrl-C does.
  const auto stop = [&](const DatasetClient::Progress& progress) {
    if (progress.sending && progress.done_bytes > (10 << 20)) client->Stop();
  };
  EXPECT_THAT(client->Upload("big", local.files, {}, stop),
              StatusIs(Code::kCancelled));
  client = Client();
  int64_t first = -1;
  const auto note = [&](const DatasetClient::Progress& progress) {
    if (progress.sending && progress.done_bytes > 0 && first < 0) {
      first = progress.done_bytes;
    }
  };
  ASSERT_OK_AND_ASSIGN(const v1::Dataset dataset,
                       client->Upload("big", local.files, {}, note));
  EXPECT_EQ(dataset.versions(0).size_bytes(), 40 << 20);
  EXPECT_GT(first, 4 << 20);
}

TEST_F(DatasetCliTest, AnUploadOutlivesARestartOfTheServer) {
  const std::string data(40 << 20, 'r');
  Write("big", data);
  ASSERT_OK_AND_ASSIGN(const LocalFiles local,
                       FindLocalFiles({folder_.path() + "/big"}));
  std::atomic<bool> half{false};
  std::thread restart([&] {
    while (!half) std::this_thread::yield();
    server_.reset();
    StartServer(address_);
  });
  const auto note = [&](const DatasetClient::Progress& progress) {
    half = half || (progress.sending && progress.done_bytes > (20 << 20));
  };
  auto client = Client();
  const auto dataset = client->Upload("big", local.files, {}, note);
  half = true;
  restart.join();
  ASSERT_OK(dataset);
  v1::DatasetFile file;
  ASSERT_OK_AND_ASSIGN(const auto files, client->ListFiles("datasets/big"));
  EXPECT_EQ(files[0].sha256(), Sha256Hex(data));
}

TEST_F(DatasetCliTest, WhatAnotherSentWronglyIsSentAgain) {
  // Another client began this blob with other bytes.
  const std::string data(1 << 20, 'g');
  Write("good", data);
  server_.reset();
  ASSERT_OK(WriteFileAtomically(
      absl::StrCat(options_.data_dir, "/blobs/partial/", Sha256Hex(data)),
      std::string(1000, 'x')));
  StartServer("127.0.0.1:0");
  EXPECT_EQ(
      Run(absl::StrCat("datasets upload d ", folder_.path(), "/good")).out,
      "datasets/d@1\n");
}

TEST_F(DatasetCliTest, QuotaIsToldPlainly) {
  server_.reset();
  options_.datasets.blobs.quota_bytes = 10;
  StartServer("127.0.0.1:0");
  const Outcome run = Run("datasets upload d IN");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("free of the quota of 10"));
}

TEST_F(DatasetCliTest, LocalFilesAreFoundByRule) {
  ASSERT_OK_AND_ASSIGN(const LocalFiles found,
                       FindLocalFiles({folder_.path() + "/in"}));
  ASSERT_EQ(found.files.size(), 2);
  EXPECT_EQ(found.files[0].path, "sub/a.py");
  EXPECT_EQ(found.files[1].path, "train.tsv");
  EXPECT_EQ(found.left_out, 1);
  const std::string link = folder_.path() + "/in/link";
  std::filesystem::create_symlink("/etc/passwd", link);
  EXPECT_EQ(FindLocalFiles({folder_.path() + "/in"})->left_out, 2);
  EXPECT_THAT(FindLocalFiles(
                  {folder_.path() + "/in/train.tsv", folder_.path() + "/in"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("would both be")));
  EXPECT_THAT(FindLocalFiles({"/nonexistent"}), StatusIs(Code::kNotFound));
  EXPECT_THAT(FindLocalFiles({"/dev/null"}), StatusIs(Code::kInvalidArgument));
}

}  // namespace
}  // namespace comera::client
