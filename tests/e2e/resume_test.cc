// Jobs that were stopped: by the loss of the one machine that has their state,
// by their owner, by a clock. They go on from their state, or wait for it.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/command.h"
#include "tests/e2e/job_follower.h"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kBound = absl::Seconds(90);
constexpr int64_t kEverySteps = 50;

// A coordinator, two workers with one slot each, and jobs of one member whose
// states only the machine that saved them has.
class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/resume-",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK_AND_ASSIGN(job_, WriteTinyJob(folder_));
    ASSERT_NO_FATAL_FAILURE(StartServer());
    for (int i = 0; i < 2; ++i) StartWorker(i);
  }

  void TearDown() override {
    followers_.clear();
    for (auto& worker : workers_) worker.reset();
    server_.reset();
    if (!HasFailure()) return;
    for (const char* log : {"server", "w0", "w1", "client"}) {
      const auto text = ReadFile(absl::StrCat(folder_, "/", log, ".log"));
      if (text.ok()) std::cerr << "--- " << log << "\n" << *text;
    }
  }

  // Flags beside the usual ones, and what the environment has beside ours.
  void StartServer(const std::vector<std::string>& flags = {},
                   const std::vector<std::string>& environment = {}) {
    server_.reset();
    ::remove((folder_ + "/port").c_str());
    std::vector<std::string> command = {"/usr/bin/env"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(
        command.end(),
        {Binary("server/comera-server"),
         absl::StrCat("--listen=", address_.empty() ? "127.0.0.1:0" : address_),
         absl::StrCat("--data_dir=", folder_, "/s"),
         absl::StrCat("--port_file=", folder_, "/port")});
    command.insert(command.end(), flags.begin(), flags.end());
    server_ = std::make_unique<Process>(command, folder_ + "/server.log");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(folder_ + "/port"));
  }

  void StartWorker(int i) {
    workers_[i] = std::make_unique<Process>(
        std::vector<std::string>{
            Binary("worker/comera-worker"), absl::StrCat("--server=", address_),
            absl::StrCat("--name=w", i),
            absl::StrCat("--address=127.0.0.", 2 + i), "--slots=1",
            // A machine goes with its members.
            "--member_lease=0", absl::StrCat("--data_dir=", folder_, "/w", i),
            absl::StrCat("--data_root=", folder_),
            absl::StrCat("--trainer=",
                         Binary("worker/trainer/comera-trainer"))},
        absl::StrCat(folder_, "/w", i, ".log"));
  }

  void Kill(int worker) {
    const std::vector<pid_t> members =
        Children(workers_[worker]->pid(), "comera-trainer");
    ASSERT_EQ(::kill(workers_[worker]->pid(), SIGKILL), 0);
    ASSERT_TRUE(workers_[worker]->Wait(kBound).has_value());
    for (pid_t member : members) ASSERT_TRUE(WaitUntilGone(member, kBound));
  }

  // The standard output of a command of the client that succeeds.
  std::string Comera(std::vector<std::string> command) {
    command.insert(command.begin(), Binary("client/comera"));
    command.insert(command.end(), {"--server", address_});
    const CommandResult result =
        RunCommand(command, folder_ + "/client.log", kBound);
    EXPECT_EQ(result.exit_code, 0) << command[1];
    return result.out;
  }

  // Submits a job that trains until it is stopped; returns its name.
  std::string Submit(const std::vector<std::string>& settings = {}) {
    std::vector<std::string> command = {
        "submit", job_,
        "-o",     "json",
        "--set",  "resources.processes=1",
        "--set",  "checkpoint.replicas=0",
        "--set",  absl::StrCat("checkpoint.every_steps=", kEverySteps),
        "--set",  "objective.early.steps=1000000"};
    for (const std::string& setting : settings) {
      command.insert(command.end(), {"--set", setting});
    }
    const auto job = nlohmann::json::parse(Comera(command), nullptr, false);
    EXPECT_TRUE(job.is_object());
    return job.is_object() ? job.value("name", "") : "";
  }

  JobFollower& Follow(const std::string& name) {
    followers_.push_back(std::make_unique<JobFollower>(
        std::vector<std::string>{Binary("client/comera"), "watch", name, "-o",
                                 "json", "--server", address_},
        folder_ + "/client.log"));
    return *followers_.back();
  }

  // Reads on until the job trains again, which must begin at `step` or later.
  void ExpectGoesOn(JobFollower& job, int64_t step) {
    const size_t runs = job.runs_of_attempt.size();
    job.resumed_from = 0;
    ASSERT_TRUE(job.Until(
        [&](const JobFollower& j) { return j.runs_of_attempt.size() > runs; },
        kBound))
        << job.state << " " << job.reason;
    EXPECT_GE(job.resumed_from, step);
    job.last_step = -1;
    ASSERT_TRUE(job.Until([](const JobFollower& j) { return j.last_step > 0; },
                          kBound));
    EXPECT_GT(job.last_step, step);
  }

  // The worker whose member trains.
  int Holder() const {
    return Children(workers_[0]->pid(), "comera-trainer").empty() ? 1 : 0;
  }

  // Asks until the answer has the text, or has it no more; what a job waits for
  // gives no notification.
  void AwaitText(std::vector<std::string> command, const std::string& text,
                 bool has = true) {
    command.insert(command.begin(), Binary("client/comera"));
    command.insert(command.end(), {"--server", address_});
    const absl::Time deadline = absl::Now() + kBound;
    while (true) {
      const CommandResult result =
          RunCommand(command, folder_ + "/client.log", kBound);
      if (result.exit_code == 0 && absl::StrContains(result.out, text) == has) {
        return;
      }
      ASSERT_LT(absl::Now(), deadline) << text << ": " << result.out;
    }
  }

  void AwaitLog(const std::string& log, const std::string& text) {
    const absl::Time deadline = absl::Now() + kBound;
    while (true) {
      const auto all = ReadFile(absl::StrCat(folder_, "/", log, ".log"));
      if (all.ok() && absl::StrContains(*all, text)) return;
      ASSERT_LT(absl::Now(), deadline) << "no \"" << text << "\" in " << log;
      // A log gives no notification, so it is polled.
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  std::string folder_, job_, address_;
  std::unique_ptr<Process> server_, workers_[2];
  std::vector<std::unique_ptr<JobFollower>> followers_;
};

TEST_F(ResumeTest, TheMachineWithTheStateIsKilledAndComesBack) {
  const std::string name = Submit();
  JobFollower& job = Follow(name);
  ASSERT_TRUE(job.Until(JobFollower::HasCheckpoint, kBound));
  const int holder = Holder();
  ASSERT_NO_FATAL_FAILURE(Kill(holder));
  ASSERT_TRUE(job.Until(
      [](const JobFollower& j) { return !j.incidents.empty(); }, kBound));
  EXPECT_THAT(job.incidents, Contains(HasSubstr("NODE_LOST")));
  // The other machine is free, and would begin anew.
  const int64_t step = job.checkpoint_step;
  ASSERT_NO_FATAL_FAILURE(AwaitText(
      {"explain", name},
      absl::StrCat("waiting for worker w", holder, ", which holds its")));
  EXPECT_TRUE(Children(workers_[1 - holder]->pid(), "comera-trainer").empty());
  StartWorker(holder);
  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, step));
  EXPECT_EQ(Children(workers_[holder]->pid(), "comera-trainer").size(), 1u);
}

TEST_F(ResumeTest, AJobIsResumedWhileTheMachineWithItsStateIsAway) {
  const std::string name = Submit();
  JobFollower& job = Follow(name);
  ASSERT_TRUE(job.Until(JobFollower::HasCheckpoint, kBound));
  const int holder = Holder();
  Comera({"pause", name});
  ASSERT_TRUE(job.Until(
      [](const JobFollower& j) { return j.state == "PAUSED"; }, kBound));
  const int64_t step = job.checkpoint_step;
  EXPECT_GT(step, 0);
  ASSERT_NO_FATAL_FAILURE(Kill(holder));
  Comera({"resume", name});
  ASSERT_NO_FATAL_FAILURE(AwaitText(
      {"explain", name},
      absl::StrCat("waiting for worker w", holder, ", which holds its")));
  EXPECT_TRUE(Children(workers_[1 - holder]->pid(), "comera-trainer").empty());
  StartWorker(holder);
  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, step));
}

TEST_F(ResumeTest, ACancelledJobLeavesItsBestModelAndGoesOn) {
  const std::string name = Submit();
  JobFollower& job = Follow(name);
  // It has validated then, which is done every 50 steps.
  ASSERT_TRUE(job.Until(
      [](const JobFollower& j) { return j.last_step > 2 * kEverySteps; },
      kBound));
  Comera({"cancel", name});
  EXPECT_EQ(job.Finish(kBound), 103);
  EXPECT_EQ(job.state, "CANCELLED");
  const int64_t step = job.checkpoint_step;
  EXPECT_GT(step, 2 * kEverySteps);
  EXPECT_THAT(Comera({"models", name}), HasSubstr("best-1"));
  const std::string model = folder_ + "/model";
  Comera({"models", name, "--download", model});
  EXPECT_GT(std::filesystem::file_size(model + "/model.safetensors"), 0u);

  Comera({"resume", name});
  JobFollower& again = Follow(name);
  ASSERT_TRUE(again.Until(
      [](const JobFollower& j) { return j.runs_of_attempt.count(2) > 0; },
      kBound));
  EXPECT_EQ(again.resumed_from, step);
  // Another attempt leaves a model of its own, and the first stays.
  const int64_t begun = again.last_step;
  ASSERT_TRUE(again.Until(
      [&](const JobFollower& j) { return j.last_step > begun; }, kBound));
  EXPECT_THAT(Comera({"models", name}), HasSubstr("best-1"));
}

TEST_F(ResumeTest, AJobStartsInTheMiddleOfAnother) {
  const std::string first = Submit();
  JobFollower& job = Follow(first);
  ASSERT_TRUE(job.Until(JobFollower::HasCheckpoint, kBound));
  const std::string holder = absl::StrCat("w", Holder());
  Comera({"pause", first});
  ASSERT_TRUE(job.Until(
      [](const JobFollower& j) { return j.state == "PAUSED"; }, kBound));
  // The other machine fetches the state from the one that has it.
  Comera({"drain", holder});
  const std::string second = Submit({absl::StrCat(
      "start_from.checkpoint=", first, "/checkpoints/", job.checkpoint_step)});
  JobFollower& other = Follow(second);
  ASSERT_TRUE(other.Until([](const JobFollower& j) { return j.last_step > 0; },
                          kBound));
  EXPECT_GT(other.last_step, job.checkpoint_step);
  EXPECT_THAT(other.incidents, IsEmpty());
  EXPECT_EQ(absl::StrCat("w", Holder()), holder == "w0" ? "w1" : "w0");
  // The first one's state is still its own.
  Comera({"cancel", second});
  Comera({"drain", "--undo", holder});
  Comera({"resume", first});
  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, job.checkpoint_step));
}

// The library that shows a process another time; empty: it is not installed.
std::string FakeTime() {
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"}) {
    if (access(path, R_OK) == 0) return path;
  }
  return "";
}

TEST_F(ResumeTest, AClockThatStartsAMonthAheadDeletesNothing) {
  const std::string fake_time = FakeTime();
  if (fake_time.empty()) GTEST_SKIP() << "skipped, libfaketime is missing";
  std::vector<std::string> names;
  std::vector<int64_t> steps;
  for (int i = 0; i < 2; ++i) {
    names.push_back(Submit());
    JobFollower& job = Follow(names.back());
    ASSERT_TRUE(job.Until(JobFollower::HasCheckpoint, kBound));
    Comera({"cancel", names.back()});
    EXPECT_EQ(job.Finish(kBound), 103);
    steps.push_back(job.checkpoint_step);
  }
  const auto state = [&](int i) {
    return absl::StrCat(names[i], "/checkpoints/", steps[i]);
  };
  // Their states are kept for three days.
  const std::vector<std::string> later = {"LD_PRELOAD=" + fake_time,
                                          "FAKETIME=+31d",
                                          "FAKETIME_DONT_FAKE_MONOTONIC=1"};
  for (auto& worker : workers_) worker.reset();
  ASSERT_NO_FATAL_FAILURE(StartServer({}, later));
  ASSERT_NO_FATAL_FAILURE(AwaitLog("server", "event=clock_not_believed"));
  for (int i = 0; i < 2; ++i) StartWorker(i);
  Comera({"resume", names[0]});
  JobFollower& job = Follow(names[0]);
  ASSERT_TRUE(job.Until(
      [](const JobFollower& j) { return j.runs_of_attempt.count(2) > 0; },
      kBound));
  EXPECT_EQ(job.resumed_from, steps[0]);
  // Maybe the other worker's, which may come later.
  ASSERT_NO_FATAL_FAILURE(
      AwaitText({"checkpoints", names[1], "-o", "json"}, state(1)));
  // Where an operator says that the clock is right, the other one is too old.
  const std::string day = absl::FormatTime(
      "%Y-%m-%d", absl::Now() + absl::Hours(31 * 24), absl::UTCTimeZone());
  ASSERT_NO_FATAL_FAILURE(StartServer({"--confirm_clock=" + day}, later));
  ASSERT_NO_FATAL_FAILURE(
      AwaitText({"checkpoints", names[1], "-o", "json"}, state(1), false));
}

}  // namespace
}  // namespace comera::e2e
