// Failures of a gang that spans workers: what is lost, and how long it takes
// until it trains again.
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"
#include "tests/worker/object_store/s3_server_process.h"

namespace comera::e2e {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kBound = absl::Seconds(90);

int64_t Number(const Json& json, const char* field) {
  if (!json.contains(field)) return 0;
  return json[field].is_string() ? std::stoll(json[field].get<std::string>())
                                 : json[field].get<int64_t>();
}

// A coordinator, three workers with one slot each, and a job of two members.
class RecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/recovery-",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK_AND_ASSIGN(job_, WriteTinyJob(folder_));
    StartServer("127.0.0.1:0");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(folder_ + "/port"));
    for (int i = 0; i < 3; ++i) workers_.push_back(StartWorker(i));
  }

  void StartServer(const std::string& listen) {
    std::vector<std::string> arguments = {
        Binary("server/comera-server"), absl::StrCat("--listen=", listen),
        "--stall_after=10s", absl::StrCat("--data_dir=", folder_, "/s"),
        absl::StrCat("--port_file=", folder_, "/port")};
    arguments.insert(arguments.end(), server_flags_.begin(),
                     server_flags_.end());
    server_ = std::make_unique<Process>(arguments, folder_ + "/server.log");
  }

  std::unique_ptr<Process> StartWorker(int i) {
    std::vector<std::string> arguments = {
        Binary("worker/comera-worker"), absl::StrCat("--server=", address_),
        absl::StrCat("--name=w", i), absl::StrCat("--address=127.0.0.", 2 + i),
        "--slots=1",
        // A machine goes with its members.
        "--member_lease=0", absl::StrCat("--data_dir=", folder_, "/w", i),
        absl::StrCat("--data_root=", folder_),
        absl::StrCat("--trainer=", Binary("worker/trainer/comera-trainer"))};
    arguments.insert(arguments.end(), worker_flags_.begin(),
                     worker_flags_.end());
    return std::make_unique<Process>(arguments,
                                     absl::StrCat(folder_, "/w", i, ".log"));
  }

  // Submits a job with this many early steps, after which its targets are met
  // at once.
  void Submit(int early_steps, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> arguments = {
        Binary("client/comera"),
        "submit",
        job_,
        "--watch",
        "-o",
        "json",
        "--server",
        address_,
        "--set",
        absl::StrCat("objective.early.steps=", early_steps),
        "--set",
        "objective.late.target_loss=9",
        "--set",
        "objective.late.target_ratio=1",
        "--set",
        "checkpoint.every_steps=200",
        "--set",
        "training.validate_every_steps=1000"};
    for (const std::string& setting : settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    client_ = std::make_unique<Process>(arguments, folder_ + "/client.log");
  }

  // Reads one event; returns false if there are no more.
  bool ReadEvent() {
    const auto line = client_->ReadLine(kBound);
    if (!line) return false;
    const Json event = Json::parse(*line, nullptr, false);
    EXPECT_TRUE(event.is_object()) << *line;
    if (!event.is_object()) return true;
    if (event.contains("spec")) name_ = event.value("name", name_);
    if (event.contains("job") && event["job"].is_string()) {
      name_ = event["job"].get<std::string>();
    }
    attempt_ = std::max(attempt_, Number(event, "attempt"));
    if (event.contains("run_info")) {
      resumed_from_ = Number(event["run_info"], "resumed_from_step");
    }
    if (event.contains("metrics")) {
      step_ = Number(event["metrics"], "step");
    }
    if (event.contains("incident")) incident_ = event["incident"];
    if (event.contains("state_change")) {
      state_ = event["state_change"].value("state", "");
      reason_ = event["state_change"].value("reason", "");
    }
    return true;
  }

  void ReadUntil(const std::function<bool()>& holds) {
    while (!holds()) ASSERT_TRUE(ReadEvent()) << Logs();
  }

  // The worker that runs this member, and the member's process.
  struct Place {
    int worker = -1;
    pid_t pid = 0;
  };
  Place Find(int rank) {
    for (int i = 0; i < 3; ++i) {
      for (pid_t pid : Children(workers_[i]->pid(), "comera-trainer")) {
        const auto environment =
            ReadFile(absl::StrCat("/proc/", pid, "/environ"));
        if (environment.ok() &&
            absl::StrContains(*environment,
                              absl::StrCat(std::string(1, '\0'), "RANK=", rank,
                                           std::string(1, '\0')))) {
          return {i, pid};
        }
      }
    }
    ADD_FAILURE() << "no rank " << rank;
    return {};
  }

  void Cancel() {
    Process cancel(
        {Binary("client/comera"), "cancel", name_, "--server", address_},
        folder_ + "/client.log");
    EXPECT_EQ(cancel.Wait(kBound), 0) << Logs();
  }

  std::string Logs() {
    std::string all;
    for (const char* name : {"server", "client", "w0", "w1", "w2"}) {
      const auto text = ReadFile(absl::StrCat(folder_, "/", name, ".log"));
      if (text.ok()) {
        absl::StrAppend(
            &all, "--- ", name, "\n",
            text->substr(text->size() - std::min<size_t>(text->size(), 4000)));
      }
    }
    return all;
  }

  std::vector<std::string> server_flags_, worker_flags_;
  std::string folder_, job_, address_, name_, state_, reason_;
  int64_t attempt_ = 0, step_ = 0, resumed_from_ = 0;
  Json incident_ = Json::object();
  std::unique_ptr<Process> server_, client_;
  std::vector<std::unique_ptr<Process>> workers_;
};

// The same with workers whose checkpoint store is a bucket.
class StoreRecoveryTest : public RecoveryTest {
 protected:
  void SetUp() override {
    const std::string absent = S3ServerProcess::Absent();
    if (!absent.empty()) GTEST_SKIP() << "no server of S3 here: " << absent;
    setenv("no_proxy", "*", 1);
    setenv("AWS_ACCESS_KEY_ID", "S3RVER", 1);
    setenv("AWS_SECRET_ACCESS_KEY", kSecret, 1);
    objects_ = absl::StrCat(::testing::TempDir(), "/recovery-objects");
    store_ = std::make_unique<S3ServerProcess>(objects_, kSecret);
    ASSERT_NE(store_->port(), "");
    worker_flags_ = {"--checkpoint_store=s3://bucket/states",
                     "--s3_endpoint=" + store_->endpoint(),
                     "--s3_region=eu-west-9"};
    // The newest state may be on its way to the bucket when its machine goes.
    // A job waits this long for such a machine before it takes an older state.
    server_flags_ = {"--checkpoint_wait=2s"};
    ASSERT_NO_FATAL_FAILURE(RecoveryTest::SetUp());
  }

  // The training states in the bucket.
  int CountStored() const {
    int count = 0;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator
             it(objects_ + ".s3/bucket/states", error),
         end;
         !error && it != end; it.increment(error)) {
      count += absl::EndsWith(it->path().string(), "_object") ? 1 : 0;
    }
    return count;
  }

  // The standard output of a command of the client.
  std::string RunCommand(std::vector<std::string> command) {
    command.insert(command.begin(), Binary("client/comera"));
    command.insert(command.end(), {"--server", address_});
    Process client(command, folder_ + "/client.log");
    std::string all;
    while (const auto line = client.ReadLine(kBound)) {
      absl::StrAppend(&all, *line, "\n");
    }
    return all;
  }

  // Whether the service lists a checkpoint that is in the store.
  bool AnyDurable() {
    const std::string all = RunCommand({"checkpoints", name_, "-o", "json"});
    return absl::StrContains(absl::StrReplaceAll(all, {{" ", ""}}),
                             "\"durable\":true");
  }

  static constexpr char kSecret[] = "not/for+members";
  std::string objects_;
  std::unique_ptr<S3ServerProcess> store_;
};

TEST_F(StoreRecoveryTest, AnotherMachineGoesOnFromTheBucket) {
  Submit(1000000, {"resources.processes=1", "checkpoint.replicas=0"});
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return step_ >= 250; }));
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return AnyDurable(); }));
  const Place first = Find(0);
  ASSERT_GE(first.worker, 0);
  // Neither commands, nor what members know, nor logs have the key.
  for (pid_t pid : {first.pid, workers_[first.worker]->pid()}) {
    ASSERT_OK_AND_ASSIGN(const std::string command,
                         ReadFile(absl::StrCat("/proc/", pid, "/cmdline")));
    EXPECT_FALSE(absl::StrContains(command, kSecret));
  }
  ASSERT_OK_AND_ASSIGN(const std::string environment,
                       ReadFile(absl::StrCat("/proc/", first.pid, "/environ")));
  EXPECT_FALSE(absl::StrContains(environment, kSecret));
  // The machine goes, with its disk.
  ASSERT_EQ(::kill(workers_[first.worker]->pid(), SIGKILL), 0);
  ASSERT_TRUE(WaitUntilGone(first.pid, kBound));
  std::filesystem::remove_all(absl::StrCat(folder_, "/w", first.worker));
  ASSERT_NO_FATAL_FAILURE(
      ReadUntil([&] { return attempt_ == 2 && resumed_from_ > 0; }));
  EXPECT_GE(resumed_from_, 200);
  EXPECT_EQ(resumed_from_ % 200, 0);
  EXPECT_TRUE(absl::StrContains(Logs(), "from=\"the store\"")) << Logs();
  // Before its own next state the second machine sees what the first one left
  // there and could not tell.
  const int64_t stored_again = resumed_from_ + 450;
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return step_ >= stored_again; }));
  ASSERT_NO_FATAL_FAILURE(Cancel());
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return state_ == "CANCELLED"; }));
  // The job could be resumed, until it is deleted.
  EXPECT_GT(CountStored(), 0);
  EXPECT_EQ(RunCommand({"delete", name_}), "");
  const absl::Time end = absl::Now() + kBound;
  while (CountStored() > 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(CountStored(), 0);
  EXPECT_FALSE(absl::StrContains(Logs(), kSecret));
}

TEST_F(RecoveryTest, AKilledWorkerCostsAFewStepsAndSeconds) {
  Submit(1000000);
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return step_ >= 330; }));
  const Place first = Find(0);
  ASSERT_GE(first.worker, 0);
  const int64_t last = step_;
  const absl::Time killed = absl::Now();
  ASSERT_EQ(::kill(workers_[first.worker]->pid(), SIGKILL), 0);
  // The other member sees a broken collective first.
  ASSERT_NO_FATAL_FAILURE(ReadUntil(
      [&] { return incident_.value("failure_class", "") == "NODE_LOST"; }));
  const absl::Time detected = absl::Now();
  step_ = 0;
  ASSERT_NO_FATAL_FAILURE(
      ReadUntil([&] { return attempt_ == 2 && step_ > 0; }));
  const absl::Time training = absl::Now();
  std::cout << "detected after " << detected - killed << ", training again "
            << training - detected << " later, last step told " << last
            << ", resumed from " << resumed_from_ << std::endl;
  EXPECT_LT(detected - killed, absl::Seconds(15));
  EXPECT_LT(training - detected, absl::Seconds(10));
  // It resumed from a newer state than the checkpoint of step 200, which was
  // lost with the worker.
  EXPECT_GT(resumed_from_, 200);
  ASSERT_NO_FATAL_FAILURE(Cancel());
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return state_ == "CANCELLED"; }));
  // Complaint 16: no process is left.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Children(workers_[i]->pid(), "comera-trainer").empty());
  }
}

TEST_F(RecoveryTest, Complaint01_AStoppedRankIsNamedAndReplaced) {
  Submit(1000000);
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return step_ >= 60; }));
  const Place stuck = Find(1);
  ASSERT_GT(stuck.pid, 0);
  const absl::Time stopped = absl::Now();
  ASSERT_EQ(::kill(stuck.pid, SIGSTOP), 0);
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return !incident_.empty(); }));
  std::cout << "named " << absl::Now() - stopped << " after it was stopped ("
            << "stall_after=10s): " << incident_.value("message", "")
            << std::endl;
  EXPECT_EQ(incident_.value("failure_class", ""), "COLLECTIVE_HANG");
  EXPECT_EQ(Number(incident_, "rank"), 1);
  EXPECT_TRUE(absl::StrContains(incident_.value("message", ""), "collective"));
  EXPECT_TRUE(WaitUntilGone(stuck.pid, absl::Seconds(20)));
  step_ = 0;
  ASSERT_NO_FATAL_FAILURE(
      ReadUntil([&] { return attempt_ == 2 && step_ > 0; }));
  EXPECT_GT(resumed_from_, 0);
  ASSERT_NO_FATAL_FAILURE(Cancel());
}

TEST_F(RecoveryTest, Complaint03_AJobFinishesWhileTheCoordinatorIsAway) {
  Submit(600);
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return step_ >= 50; }));
  const Place first = Find(0), second = Find(1);
  ASSERT_EQ(::kill(server_->pid(), SIGKILL), 0);
  ASSERT_TRUE(server_->Wait(kBound).has_value());
  // The other members train to the end without it.
  EXPECT_TRUE(WaitUntilGone(first.pid, kBound)) << Logs();
  EXPECT_TRUE(WaitUntilGone(second.pid, kBound)) << Logs();
  StartServer(address_);
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return state_ == "SUCCEEDED"; }));
  EXPECT_EQ(attempt_, 1);
  EXPECT_TRUE(incident_.empty()) << incident_;
}

TEST_F(RecoveryTest, Complaint13_APreemptionNoticeLosesNoStep) {
  Submit(1000000);
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return step_ >= 60; }));
  const Place first = Find(0);
  ASSERT_EQ(::kill(workers_[first.worker]->pid(), SIGTERM), 0);
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return attempt_ == 2; }));
  const int64_t last = step_;
  ASSERT_NO_FATAL_FAILURE(ReadUntil([&] { return resumed_from_ > 0; }));
  EXPECT_GE(resumed_from_, last);
  EXPECT_EQ(incident_.value("failure_class", ""), "PREEMPTED") << incident_;
  ASSERT_NO_FATAL_FAILURE(Cancel());
}

}  // namespace
}  // namespace comera::e2e
