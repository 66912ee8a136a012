// Attacks on a worker's files by jobs, and on callers by a false worker, with
// real processes: what the jobs' owners get to see holds no secret.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kBound = absl::Seconds(120);

constexpr char kKey[] =
    "-----BEGIN PRIVATE KEY-----\nMIGHsecretsecret0001\nMIGHsecretsecret0002\n"
    "MIGHsecretsecret0003\n-----END PRIVATE KEY-----\n";

// A classifier that needs nothing but its table.
constexpr char kClassifier[] = R"(display_name: attack
model:
  family: encoder_classifier
  layers: 1
  hidden: 32
  ffn: 64
  heads: 2
  classes: 2
data:
  glue_tsv:
    train: TABLE
    validation: TABLE
    sentence1_column: 0
    sentence2_column: -1
    labels: [no, yes]
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 300}
  max_length: 16
compression: {method: dense}
objective:
  early: {steps: 2, only: true}
optimizer: {learning_rate_other: 0.001}
training: {batch_size: 2, seed: 1, validation_samples: 2}
resources: {device: cpu, processes: 1, threads_per_process: 1}
)";

// A coordinator with tokens, and a worker whose flags a test chooses.
class DataAccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK(MakeDirectories(folder_));
    server_ = std::make_unique<Process>(
        std::vector<std::string>{
            Binary("server/comera-server"), "--listen=127.0.0.1:0",
            absl::StrCat("--data_dir=", folder_, "/server"),
            absl::StrCat("--port_file=", folder_, "/port"),
            absl::StrCat("--init_admin_token_file=", folder_, "/admin.token")},
        folder_ + "/server.log");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(folder_ + "/port"));
    address_ = std::string(absl::StripSuffix(address_, "\n"));
    const std::string token =
        Run({"token", "create", "--name", "w", "--worker"}).out;
    ASSERT_THAT(token, HasSubstr("comera_"));
    Write("/worker.token", token);
    secret_ = token.substr(token.rfind('_') + 1, 64);
    Write("/key.pem", kKey);
    ASSERT_OK_AND_ASSIGN(job_, WriteTinyJob(folder_));
    std::string classifier = kClassifier;
    for (size_t at; (at = classifier.find("TABLE")) != std::string::npos;) {
      classifier.replace(at, 5, folder_ + "/key.pem");
    }
    Write("/classifier.yaml", classifier);
  }

  void Write(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ + name) << contents;
  }

  void StartWorker(
      const std::vector<std::string>& flags,
      const std::string& trainer = Binary("worker/trainer/comera-trainer")) {
    std::vector<std::string> command = {
        Binary("worker/comera-worker"),
        absl::StrCat("--server=", address_),
        "--name=w",
        "--slots=2",
        "--gpus=none",
        "--member_lease=0",
        absl::StrCat("--token_file=", folder_, "/worker.token"),
        absl::StrCat("--data_dir=", folder_, "/worker"),
        absl::StrCat("--trainer=", trainer)};
    command.insert(command.end(), flags.begin(), flags.end());
    worker_ = std::make_unique<Process>(command, folder_ + "/worker.log");
  }

  struct Outcome {
    int code = -1;
    std::string out;
    std::string err;
  };
  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {Binary("client/comera"), "--server", address_,
                      "--token-file", folder_ + "/admin.token"});
    const std::string log = absl::StrCat(folder_, "/client-", ++runs_);
    Outcome outcome;
    {
      Process process(arguments, log);
      while (const auto line = process.ReadLine(kBound)) {
        absl::StrAppend(&outcome.out, *line, "\n");
      }
      outcome.code = process.Wait(kBound).value_or(-1);
    }
    outcome.err = ReadFile(log).value_or("");
    return outcome;
  }

  // Submits a job, waits for its end, and returns all that is told of it.
  Outcome Try(const std::string& file, const std::vector<std::string>& sets) {
    std::vector<std::string> submit = {"submit", file};
    for (const std::string& set : sets) {
      submit.push_back("--set");
      submit.push_back(set);
    }
    const Outcome submitted = Run(submit);
    EXPECT_EQ(submitted.code, 0) << submitted.err;
    const std::string name(absl::StripSuffix(submitted.out, "\n"));
    Outcome told;
    told.code = Run({"wait", name}).code;
    told.out = Run({"get", name, "-o", "json"}).out;
    told.err = Run({"logs", name}).out;
    return told;
  }

  // The job must fail, by the field's name, and tell nothing.
  void ExpectRefused(const std::string& file,
                     const std::vector<std::string>& sets,
                     const std::string& field, const std::string& why) {
    const Outcome told = Try(file, sets);
    EXPECT_EQ(told.code, 100) << told.out;
    const Json record = Json::parse(told.out, nullptr, false);
    ASSERT_TRUE(record.is_object()) << told.out;
    const std::string message =
        record.value("failure", Json::object()).value("message", "");
    EXPECT_THAT(message, AllOf(HasSubstr(field), HasSubstr(why)));
    for (const std::string& text : {told.out, told.err}) {
      EXPECT_THAT(text, Not(HasSubstr("secretsecret")));
      EXPECT_THAT(text, Not(HasSubstr(secret_)));
    }
  }

  std::vector<std::string> TinyJob(const std::string& root) const {
    return {absl::StrCat("data.code_directory.roots=[", root, "]"),
            "data.code_directory.globs=[\"*\"]", "resources.processes=1"};
  }
  std::string Classifier() const { return folder_ + "/classifier.yaml"; }

  std::string folder_, address_, job_, secret_;
  int runs_ = 0;
  std::unique_ptr<Process> server_, worker_;
};

TEST_F(DataAccessTest, WithoutARootJobsReadNoFile) {
  StartWorker({});
  const std::string why = "uploaded datasets only";
  ExpectRefused(Classifier(), {}, "data.glue_tsv.train", why);
  ExpectRefused(job_, TinyJob(folder_ + "/corpus"),
                "data.code_directory.roots[0]", why);
  // An uploaded dataset works.
  EXPECT_EQ(Run({"datasets", "upload", "tiny", folder_ + "/corpus"}).code, 0);
  const Outcome trained = Try(
      job_, {"data.code_directory.roots=[datasets/tiny]",
             "resources.processes=1", "objective.early.steps=10",
             "objective.late.target_loss=9", "objective.late.target_ratio=1"});
  EXPECT_EQ(trained.code, 0) << trained.out << trained.err;
}

TEST_F(DataAccessTest, TheWorkersOwnFilesAreClosedUnderEveryRoot) {
  fs::create_directories(folder_ + "/worker/jobs/other/work/model");
  Write("/worker/jobs/other/work/model/model.safetensors", "secretsecret");
  StartWorker({"--data_root=/"});
  const std::string why = "not below a folder";
  // The token, by its name, by a link, and by the folder that holds it.
  fs::create_directories(folder_ + "/mine");
  fs::create_symlink("../worker.token", folder_ + "/mine/link");
  const std::string table = "data.glue_tsv.train=";
  for (const char* path : {"/worker.token", "/mine/link", "/worker/lock"}) {
    ExpectRefused(Classifier(), {table + folder_ + path}, "data.glue_tsv.train",
                  why);
  }
  ExpectRefused(job_, TinyJob(folder_ + "/worker"),
                "data.code_directory.roots[0]", why);
  ExpectRefused(job_, TinyJob(folder_), "data.code_directory.roots[0]",
                "what no job may read lies below it");
  // Another queue's model, and what the kernel tells of the daemon.
  ExpectRefused(job_,
                {absl::StrCat("initial_weights.safetensors=", folder_,
                              "/worker/jobs/other/work/model"),
                 "resources.processes=1"},
                "initial_weights.safetensors", why);
  ExpectRefused(Classifier(), {table + "/proc/self/environ"},
                "data.glue_tsv.train", why);
  // Whatever else a root of "/" opens: its content is in no failure.
  ExpectRefused(Classifier(), {}, "key.pem:2", "column 1: expected one of");
}

TEST_F(DataAccessTest, LinksLeadOutOfNoRoot) {
  fs::create_symlink("../key.pem", folder_ + "/corpus/out.tsv");
  fs::create_symlink(folder_, folder_ + "/corpus/up");
  StartWorker({absl::StrCat("--data_root=", folder_, "/corpus")});
  for (const char* path :
       {"/corpus/out.tsv", "/corpus/up/key.pem", "/corpus/../key.pem"}) {
    ExpectRefused(Classifier(),
                  {absl::StrCat("data.glue_tsv.train=", folder_, path)},
                  "data.glue_tsv.train", "not below a folder");
  }
  const Outcome trained = Try(
      job_, {"resources.processes=1", "objective.early.steps=10",
             "objective.late.target_loss=9", "objective.late.target_ratio=1"});
  EXPECT_EQ(trained.code, 0) << trained.out << trained.err;
}

TEST_F(DataAccessTest, AFalseWorkerCannotAnnounceASocket) {
  const auto stub = v1::WorkerService::NewStub(
      grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  const std::string token = ReadFile(folder_ + "/worker.token").value_or("");
  const auto announce = [&](const std::string& peer,
                            const std::string& worker = "w") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(60));
    context.AddMetadata(
        "authorization",
        absl::StrCat("Bearer ", absl::StripSuffix(token, "\n")));
    v1::SynchronizeRequest request;
    request.set_worker(worker);
    request.set_incarnation("x");
    request.set_peer_address(peer);
    v1::SynchronizeResponse response;
    return stub->Synchronize(&context, request, &response);
  };
  for (const std::string& peer :
       {absl::StrCat("unix:", folder_, "/sock"), std::string("unix:80"),
        std::string("dns:///evil.example:80")}) {
    const grpc::Status status = announce(peer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << peer;
    EXPECT_THAT(status.error_message(), HasSubstr("peer_address"));
  }
  // Nor can it be another worker than the one that its token names.
  EXPECT_EQ(announce("127.0.0.1:7", "false").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(Run({"workers", "-o", "json"}).out, Not(HasSubstr("workers/")));
  EXPECT_TRUE(announce("127.0.0.1:7").ok());
}

// Everything below the folder, as "mode name" of what others than its owner may
// use.
std::vector<std::string> OpenToOthers(const std::string& folder) {
  const absl::Time deadline = absl::Now() + kBound;
  while (true) {
    std::vector<std::string> found;
    std::error_code vanished;
    const fs::recursive_directory_iterator end{};
    fs::recursive_directory_iterator one(folder, vanished);
    for (; !vanished && one != end; one.increment(vanished)) {
      struct stat info = {};
      if (lstat(one->path().c_str(), &info) != 0 || S_ISLNK(info.st_mode)) {
        continue;
      }
      // Datasets are kept from being changed by mistake; their folders are
      // closed.
      const bool dataset = (info.st_mode & 0222) == 0;
      if ((info.st_mode & 077) != 0 && !dataset) {
        found.push_back(absl::StrFormat("%o %s", info.st_mode & 07777,
                                        one->path().string()));
      }
    }
    if (!vanished) return found;
    // The daemons run, and may have removed a folder on the way.
    if (absl::Now() > deadline) return {vanished.message()};
  }
}

TEST_F(DataAccessTest, TheDaemonsFilesAreNobodyElses) {
  umask(022);
  StartWorker({});
  EXPECT_EQ(Run({"datasets", "upload", "tiny", folder_ + "/corpus"}).code, 0);
  const Outcome trained = Try(
      job_, {"data.code_directory.roots=[datasets/tiny]",
             "resources.processes=1", "objective.early.steps=10",
             "objective.late.target_loss=9", "objective.late.target_ratio=1"});
  EXPECT_EQ(trained.code, 0) << trained.out << trained.err;
  for (const char* daemon : {"/server", "/worker"}) {
    struct stat info = {};
    ASSERT_EQ(stat((folder_ + daemon).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u) << daemon;
    EXPECT_THAT(OpenToOthers(folder_ + daemon), ::testing::IsEmpty());
  }
}

// A false trainer, which does what one that was taken over could do.
TEST_F(DataAccessTest, AMemberReachesItsOwnFilesOnly) {
  const std::string script = absl::StrCat(
      "#!/bin/sh\nexec >&2\ncat ", folder_, "/worker.token ", folder_,
      "/key.pem ", folder_, "/worker/jobs/*/work/secret\nls ", folder_,
      "/worker\ncat /proc/$PPID/environ /proc/$PPID/cmdline\n",
      "cat \"${1#--task=}\" && echo TASK\nexit 1\n");
  Write("/trainer.sh", script);
  ASSERT_EQ(chmod((folder_ + "/trainer.sh").c_str(), 0755), 0);
  fs::create_directories(folder_ + "/worker/jobs/other/work");
  Write("/worker/jobs/other/work/secret", "secretsecret0004");
  StartWorker({"--data_root=" + folder_ + "/corpus"}, folder_ + "/trainer.sh");
  const Outcome told =
      Try(job_, {"resources.processes=1", "retries.infrastructure=0"});
  EXPECT_THAT(told.err, HasSubstr("TASK"));
  const std::string log = ReadFile(folder_ + "/worker.log").value_or("");
  if (log.find("confined to their files by Landlock") == std::string::npos) {
    EXPECT_THAT(log, HasSubstr("this kernel has no Landlock"));
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  EXPECT_THAT(told.err, HasSubstr("Permission denied"));
  EXPECT_THAT(told.err, Not(HasSubstr("secretsecret")));
  EXPECT_THAT(told.err, Not(HasSubstr(secret_)));
}

TEST_F(DataAccessTest, AFolderOfSomebodyElseIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directories(folder_ + "/theirs");
  ASSERT_EQ(chown((folder_ + "/theirs").c_str(), 12345, -1), 0);
  for (const char* program : {"server/comera-server", "worker/comera-worker"}) {
    const std::string log = folder_ + "/theirs.log";
    Process daemon(
        {Binary(program), absl::StrCat("--data_dir=", folder_, "/theirs"),
         program[0] == 's' ? "--listen=127.0.0.1:0"
                           : absl::StrCat("--server=", address_),
         program[0] == 's'
             ? "--http_listen=none"
             : absl::StrCat("--trainer=", Binary("worker/trainer/"
                                                 "comera-trainer"))},
        log);
    EXPECT_EQ(daemon.Wait(kBound).value_or(-1), 1) << program;
    EXPECT_THAT(ReadFile(log).value_or(""),
                AllOf(HasSubstr("/theirs"), HasSubstr("user 12345")));
  }
  EXPECT_TRUE(fs::is_empty(folder_ + "/theirs"));
}

}  // namespace
}  // namespace comera::e2e
