// kill -9 of the coordinator, of the worker, or of a member while a job trains:
// the job still meets its targets, and nothing runs twice.
#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kBound = absl::Seconds(120);

// A job run by `comera run`, and what its events reported.
class KillTest : public ::testing::Test {
 protected:
  void Start(const std::string& name) {
    folder_ = absl::StrCat(::testing::TempDir(), "/", name);
    ASSERT_OK_AND_ASSIGN(const std::string job, WriteTinyJob(folder_));
    Run({job});
  }

  // Starts `comera run` with these arguments and the test's folders.
  void Run(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {
        Binary("client/comera"),
        "run",
        "-o",
        "json",
        "--data-dir",
        folder_ + "/data",
        "--model-dir",
        folder_ + "/model",
        "--status-file",
        StatusFile(),
        "--server-binary",
        Binary("server/comera-server"),
        "--worker-binary",
        Binary("worker/comera-worker"),
        "--trainer-binary",
        Binary("worker/trainer/comera-trainer")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    run_ = std::make_unique<Process>(command, folder_ + "/stderr");
  }

  std::string StatusFile() const { return folder_ + "/status.json"; }

  // Reads events until a checkpoint exists and training went on after it.
  void ReadUntilTraining() {
    while (checkpoint_step_ < 0 || last_step_ <= checkpoint_step_) {
      ASSERT_TRUE(ReadEvent()) << "no more events; " << Stderr();
    }
  }

  bool ReadEvent() {
    const auto line = run_->ReadLine(kBound);
    if (!line) return false;
    const Json event = Json::parse(*line, nullptr, false);
    EXPECT_FALSE(event.is_discarded()) << "not JSON on stdout: " << *line;
    if (!event.is_object()) return true;
    if (event.contains("run_info")) {
      const int64_t attempt = event["attempt"].get<int64_t>();
      ++runs_of_attempt_[attempt];
      if (event["run_info"].contains("resumed_from_step")) {
        resumed_from_ = event["run_info"]["resumed_from_step"].get<int64_t>();
      }
    }
    if (event.contains("metrics")) {
      last_step_ = event["metrics"]["step"].get<int64_t>();
    }
    if (event.contains("checkpoint")) {
      checkpoint_step_ = event["checkpoint"]["step"].get<int64_t>();
    }
    if (event.contains("state_change")) {
      final_state_ = event["state_change"].value("state", "");
      outcome_ = event["state_change"].value("outcome", "");
    }
    if (event.contains("sequence")) {
      const int64_t n = event["sequence"].get<int64_t>();
      EXPECT_GT(n, last_sequence_) << "an event came twice";
      last_sequence_ = n;
    }
    return true;
  }

  pid_t PidOf(const std::string& role) {
    const auto text = ReadFile(StatusFile());
    EXPECT_OK(text);
    return Json::parse(*text)[role].get<pid_t>();
  }

  void FinishAndExpectTargetMet() {
    const pid_t server = PidOf("server_pid"), worker = PidOf("worker_pid");
    while (ReadEvent()) {
    }
    ASSERT_EQ(run_->Wait(kBound), 0) << Stderr();
    EXPECT_EQ(final_state_, "SUCCEEDED");
    EXPECT_EQ(outcome_, "TARGET_MET");
    for (const auto& [attempt, runs] : runs_of_attempt_) {
      EXPECT_EQ(runs, 1) << "attempt " << attempt << " ran more than once";
    }
    EXPECT_TRUE(WaitUntilGone(server, kBound));
    EXPECT_TRUE(WaitUntilGone(worker, kBound));
    EXPECT_OK(ReadFile(folder_ + "/model/model.safetensors"));
  }

  std::string Stderr() {
    const auto text = ReadFile(folder_ + "/stderr");
    return text.ok() ? *text : text.status().ToString();
  }

  std::string folder_;
  std::unique_ptr<Process> run_;
  std::map<int64_t, int> runs_of_attempt_;
  int64_t last_step_ = -1, checkpoint_step_ = -1, resumed_from_ = 0;
  int64_t last_sequence_ = 0;
  std::string final_state_, outcome_;
};

TEST_F(KillTest, Undisturbed) {
  ASSERT_NO_FATAL_FAILURE(Start("undisturbed"));
  ASSERT_NO_FATAL_FAILURE(ReadUntilTraining());
  const auto ranks = Children(PidOf("worker_pid"), "comera-trainer");
  EXPECT_EQ(ranks.size(), 2u);
  ASSERT_NO_FATAL_FAILURE(FinishAndExpectTargetMet());
  EXPECT_EQ(runs_of_attempt_.size(), 1u);
  for (pid_t rank : ranks) EXPECT_TRUE(WaitUntilGone(rank, kBound));
}

TEST_F(KillTest, AnInterruptedJobIsKeptAndGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Start("interrupted"));
  ASSERT_NO_FATAL_FAILURE(ReadUntilTraining());
  const pid_t server = PidOf("server_pid");
  ASSERT_EQ(::kill(run_->pid(), SIGINT), 0);
  while (ReadEvent()) {
  }
  ASSERT_EQ(run_->Wait(kBound), 130) << Stderr();
  EXPECT_TRUE(WaitUntilGone(server, kBound));
  // The message is the command that goes on.
  const std::string said = Stderr(), before = "comera run --resume ";
  const size_t at = said.find(before);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_NE(said.find(" --processes 2 ", at), std::string::npos) << said;
  const size_t begin = at + before.size();
  const std::string job = said.substr(begin, said.find(' ', begin) - begin);
  const int64_t saved = last_step_;
  last_sequence_ = 0;
  last_step_ = checkpoint_step_ = -1;
  runs_of_attempt_.clear();
  Run({"--resume", job, "--processes", "2"});
  // The events of the first attempt come again.
  while (runs_of_attempt_.count(2) == 0 || last_step_ <= resumed_from_) {
    ASSERT_TRUE(ReadEvent()) << "no more events; " << Stderr();
  }
  EXPECT_GE(resumed_from_, saved);
  // The next run dies without a word, and leaves the job as it runs.
  const pid_t second = PidOf("server_pid"), worker = PidOf("worker_pid");
  ASSERT_EQ(::kill(run_->pid(), SIGKILL), 0);
  while (ReadEvent()) {
  }
  run_->Wait(kBound);
  // The next ones do not wait for their folders.
  EXPECT_TRUE(WaitUntilGone(second, kBound));
  EXPECT_TRUE(WaitUntilGone(worker, kBound));
  last_sequence_ = 0;
  last_step_ = checkpoint_step_ = -1;
  runs_of_attempt_.clear();
  Run({"--resume", job, "--processes", "2"});
  ASSERT_NO_FATAL_FAILURE(ReadUntilTraining());
  ASSERT_NO_FATAL_FAILURE(FinishAndExpectTargetMet());
  EXPECT_GE(resumed_from_, saved);
  EXPECT_EQ(runs_of_attempt_.size(), 3u);
}

TEST_F(KillTest, CoordinatorComesBackAndMembersTrainOn) {
  ASSERT_NO_FATAL_FAILURE(Start("coordinator"));
  ASSERT_NO_FATAL_FAILURE(ReadUntilTraining());
  const auto ranks = Children(PidOf("worker_pid"), "comera-trainer");
  ASSERT_EQ(::kill(PidOf("server_pid"), SIGKILL), 0);
  ASSERT_NO_FATAL_FAILURE(FinishAndExpectTargetMet());
  // The same attempt continued: no second attempt, no second start.
  EXPECT_EQ(runs_of_attempt_.size(), 1u);
  for (pid_t rank : ranks) EXPECT_TRUE(WaitUntilGone(rank, kBound));
}

TEST_F(KillTest, WorkerComesBackAndTheJobResumes) {
  ASSERT_NO_FATAL_FAILURE(Start("worker"));
  ASSERT_NO_FATAL_FAILURE(ReadUntilTraining());
  const pid_t worker = PidOf("worker_pid");
  const auto ranks = Children(worker, "comera-trainer");
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  // Members must not outlive their worker, or they would run beside the next.
  for (pid_t rank : ranks) EXPECT_TRUE(WaitUntilGone(rank, kBound));
  ASSERT_NO_FATAL_FAILURE(FinishAndExpectTargetMet());
  EXPECT_EQ(runs_of_attempt_.size(), 2u);
  EXPECT_GT(resumed_from_, 0);
}

TEST_F(KillTest, LostMemberRestartsTheGangFromTheCheckpoint) {
  ASSERT_NO_FATAL_FAILURE(Start("rank"));
  ASSERT_NO_FATAL_FAILURE(ReadUntilTraining());
  const auto ranks = Children(PidOf("worker_pid"), "comera-trainer");
  ASSERT_EQ(ranks.size(), 2u);
  ASSERT_EQ(::kill(ranks[1], SIGKILL), 0);
  ASSERT_NO_FATAL_FAILURE(FinishAndExpectTargetMet());
  EXPECT_EQ(runs_of_attempt_.size(), 2u);
  EXPECT_GT(resumed_from_, 0);
}

}  // namespace
}  // namespace comera::e2e
