// Runs small shell scripts as programs, from their start to their end.
#include "worker/trainer/program/run_program.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/resource_names.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/program/program_environment.h"
#include "worker/trainer/state/checkpoint_files.h"

namespace comera::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Functions by which scripts report as comera.torch.Run does.
constexpr char kPrelude[] = R"(
say() { echo "$1" >> "$COMERA_RUN_EVENTS"; }
started() { say "{\"event\":\"started\",\"step\":$1,\"steps\":10,\"size\":7}"; }
step() { say "{\"event\":\"step\",\"step\":$1,\"loss\":2,\"size\":7}"; }
saved() {
  say "{\"event\":\"checkpoint\",\"step\":$1,\"path\":\"$2\"}"
}
ended() { say "{\"event\":\"ended\",\"step\":$1,\"outcome\":\"$2\"}"; }
)";

class RunProgramTest : public ::testing::Test {
 protected:
  RunProgramTest() {
    std::string folder = absl::StrCat(::testing::TempDir(), "/run-XXXXXX");
    folder_ = mkdtemp(folder.data());
    setenv("TMPDIR", folder_.c_str(), 1);
    task_.set_job("j1");
    task_.set_attempt(3);
    task_.set_world_size(1);
    task_.set_local_world_size(1);
    task_.set_work_dir(folder_ + "/work");
    v1::ProgramSpec& program = *task_.mutable_spec()->mutable_program();
    program.set_files(folder_ + "/files");
    program.set_entry("train.sh");
    program.set_python("/bin/sh");
    *task_.mutable_spec() = WithDefaults(task_.spec());
    EXPECT_OK(MakeDirectories(folder_ + "/files"));
  }
  ~RunProgramTest() override { fs::remove_all(folder_); }

  absl::Status Run(const std::string& script) {
    EXPECT_OK(WriteFileAtomically(folder_ + "/files/train.sh",
                                  absl::StrCat(kPrelude, script)));
    told_.clear();
    Activity activity;
    return RunProgram(
        task_, "CPU, 1 threads", stop_,
        [this](const v1::TrainerEvent& event) {
          told_.push_back(event);
          if (event.has_run_info() && stop_once_started_) stop_ = true;
          if (event.has_run_info() && finish_once_started_) {
            EXPECT_OK(WriteFileAtomically(
                absl::StrCat(task_.work_dir(), "/", FinishFile(3)), ""));
          }
        },
        activity);
  }

  // The one event that `has` holds for.
  template <typename Has>
  v1::TrainerEvent The(Has has) const {
    std::vector<v1::TrainerEvent> found;
    for (const v1::TrainerEvent& event : told_) {
      if (has(event)) found.push_back(event);
    }
    EXPECT_THAT(found, SizeIs(1));
    return found.empty() ? v1::TrainerEvent() : found[0];
  }
  static bool IsResult(const v1::TrainerEvent& e) { return e.has_result(); }
  static bool IsFailure(const v1::TrainerEvent& e) { return e.has_failure(); }
  static bool IsCheckpoint(const v1::TrainerEvent& e) {
    return e.has_checkpoint();
  }

  std::string ModelFile(const std::string& name) const {
    const auto contents =
        ReadFile(absl::StrCat(task_.work_dir(), "/model/", name));
    return contents.ok() ? *contents : "";
  }

  std::string folder_;
  TrainerTask task_;
  std::atomic<bool> stop_{false};
  bool stop_once_started_ = false;
  bool finish_once_started_ = false;
  std::vector<v1::TrainerEvent> told_;
};

TEST_F(RunProgramTest, AProgramThatKnowsNothingOfTheServiceSucceeds) {
  v1::ProgramSpec& program = *task_.mutable_spec()->mutable_program();
  program.add_arguments("a b");
  (*program.mutable_environment())["COLOUR"] = "red";
  (*program.mutable_data())["corpus"] = "/data/text";
  ASSERT_OK(Run(R"(
    echo "$1 $COLOUR $COMERA_DATA_CORPUS $RANK/$WORLD_SIZE $MASTER_ADDR" \
      > "$COMERA_RUN_MODEL/seen"
    ls > "$COMERA_RUN_MODEL/folder")"));
  EXPECT_EQ(ModelFile("seen"), "a b red /data/text 0/1 127.0.0.1\n");
  EXPECT_EQ(ModelFile("folder"), "train.sh\n");
  EXPECT_THAT(ModelFile("program.json"), HasSubstr("train.sh"));
  EXPECT_EQ(The(IsResult).result().outcome(), v1::COMPLETED);
}

TEST_F(RunProgramTest, WhatARunReportsIsPassedOn) {
  ASSERT_OK(Run("started 0; step 5; ended 10 completed"));
  EXPECT_EQ(The([](const auto& e) { return e.has_run_info(); })
                .run_info()
                .total_steps(),
            10);
  EXPECT_EQ(The([](const auto& e) { return e.has_metrics(); }).metrics().step(),
            5);
  EXPECT_EQ(The(IsResult).result().step(), 10);
  EXPECT_EQ(The(IsResult).result().size_parameters(), 7);
}

TEST_F(RunProgramTest, OtherMembersTellNothingAndLeaveNoModel) {
  task_.set_rank(1);
  task_.set_world_size(2);
  task_.set_rendezvous_dir(folder_ + "/rendezvous");
  ASSERT_OK(MakeDirectories(folder_ + "/rendezvous"));
  TrainerTask first = task_;
  first.set_rank(0);
  std::atomic<bool> stop{false};
  Activity activity;
  ASSERT_OK(WriteFileAtomically(
      folder_ + "/files/train.sh",
      absl::StrCat(kPrelude, "started 0; step 5; ended 10 completed")));
  // Member 0 leaves its address, whether or not it still runs.
  ASSERT_OK(RunProgram(
      first, "", stop, [](const auto&) {}, activity));
  ASSERT_OK(Run("started 0; step 5; ended 10 completed; echo $MASTER_PORT"));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(RunProgramTest, CheckpointsAreKeptAndComeBack) {
  ASSERT_OK(Run(R"(
    started 0
    printf 'state of 5' > "$COMERA_RUN_CHECKPOINTS/step-5.pt"
    saved 5 "$COMERA_RUN_CHECKPOINTS/step-5.pt"
    ended 5 completed)"));
  EXPECT_EQ(The(IsCheckpoint).checkpoint().step(), 5);
  ASSERT_OK_AND_ASSIGN(
      const std::string sealed,
      ReadFile(absl::StrCat(task_.work_dir(),
                            "/checkpoints/step-000000000005.attempt-3."
                            "checkpoint")));
  EXPECT_EQ(Unseal(sealed).value_or(""), "state of 5");

  task_.set_attempt(4);
  task_.set_resume(true);
  task_.mutable_start()->set_attempt(3);
  task_.mutable_start()->set_step(5);
  ASSERT_OK(Run(R"(
    cp "$COMERA_RUN_CHECKPOINTS/step-0000000005.pt" "$COMERA_RUN_MODEL/found"
    cp "$COMERA_RUN_CHECKPOINTS/step-0000000005.json" "$COMERA_RUN_MODEL/marker")"));
  EXPECT_EQ(ModelFile("found"), "state of 5");
  EXPECT_THAT(ModelFile("marker"), HasSubstr(Sha256Hex("state of 5")));

  task_.mutable_start()->set_step(6);
  EXPECT_EQ(FailureClassOf(Run("exit 0")), v1::CHECKPOINT_UNREACHABLE);
}

TEST_F(RunProgramTest, OnlyFilesOfItsOwnFolderBecomeCheckpoints) {
  ASSERT_OK(WriteFileAtomically(folder_ + "/secret", "secret"));
  ASSERT_OK(
      Run(absl::StrCat(R"(
    started 0
    ln -s )",
                       folder_, R"(/secret "$COMERA_RUN_CHECKPOINTS/step-6.pt"
    saved 5 )",
                       folder_, R"(/secret
    saved 6 "$COMERA_RUN_CHECKPOINTS/step-6.pt"
    saved 7 "$COMERA_RUN_CHECKPOINTS/missing.pt"
    ended 7 completed)")));
  for (const v1::TrainerEvent& event : told_) {
    EXPECT_FALSE(event.has_checkpoint());
  }
  std::error_code error;
  EXPECT_FALSE(fs::exists(task_.work_dir() + "/checkpoints", error));
}

TEST_F(RunProgramTest, AFailureHasStatusClassAndMessage) {
  const absl::Status status = Run(R"(
    started 0; step 5
    say '{"event":"ended","step":5,"outcome":"failed","error":"ValueError: x"}'
    exit 3)");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("status 3: ValueError: x, after step 5"));
  EXPECT_EQ(FailureClassOf(status), v1::USER);
  EXPECT_EQ(FailureClassOf(Run("kill -9 $$")), v1::RANK_LOST);
}

TEST_F(RunProgramTest, AMissingProgramOrInterpreterIsTheUsersFault) {
  task_.mutable_spec()->mutable_program()->set_entry("other.sh");
  absl::Status status = Run("");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("other.sh"));
  task_.mutable_spec()->mutable_program()->set_entry("train.sh");
  task_.mutable_spec()->mutable_program()->set_python("/no/python");
  status = Run("");
  EXPECT_EQ(FailureClassOf(status), v1::USER);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/python"));
}

TEST_F(RunProgramTest, ARunThatIsStoppedEndsWithoutResult) {
  stop_once_started_ = true;
  ASSERT_OK(Run(R"(
    trap 'ended 4 stopped; exit 0' TERM
    started 4
    while :; do sleep 0.01; done)"));
  EXPECT_EQ(The(IsFailure).failure().failure_class(), v1::PREEMPTED);
  EXPECT_THAT(The(IsFailure).failure().message(), HasSubstr("step 4"));
}

TEST_F(RunProgramTest, AProgramThatTheSignalEndsWasStoppedToo) {
  stop_once_started_ = true;
  ASSERT_OK(Run("started 4; while :; do sleep 0.01; done"));
  EXPECT_EQ(The(IsFailure).failure().failure_class(), v1::PREEMPTED);
}

// With its gang, or by somebody who kills processes where memory is short.
TEST_F(RunProgramTest, ARunThatOthersHaveStoppedIsNotComplete) {
  ASSERT_OK(Run("started 4; ended 5 stopped"));
  EXPECT_EQ(The(IsFailure).failure().failure_class(), v1::PREEMPTED);
}

TEST_F(RunProgramTest, WhatNoModelMayHoldIsLeftOutAndNamed) {
  ASSERT_OK(Run(R"(
    cd "$COMERA_RUN_MODEL"
    echo weights > model.pt
    mkdir 1_Pooling; echo x > 1_Pooling/config.json
    echo x > 'two words'; echo x > .gitattributes
    ln -s /etc/passwd link
    for i in $(seq 100); do echo x > part-$i; done)"));
  std::vector<std::string> left;
  for (const auto& entry :
       fs::directory_iterator(task_.work_dir() + "/model")) {
    left.push_back(entry.path().filename().string());
    EXPECT_TRUE(fs::is_regular_file(entry.symlink_status()));
  }
  EXPECT_THAT(left, SizeIs(64));
  EXPECT_THAT(left, Contains("program.json"));
  EXPECT_THAT(left, Not(Contains("two words")));
  EXPECT_THAT(
      The([](const auto& e) { return e.has_incident(); }).incident().message(),
      HasSubstr("left out of the model"));
}

TEST_F(RunProgramTest, AProgramThatReportsWithoutEndIsCutShort) {
  ASSERT_OK(Run(R"(
    started 0
    for i in $(seq 2000); do
      echo '{"event":"ranks","step":1,"ranks":{}}'
    done >> "$COMERA_RUN_EVENTS"
    ended 10 completed)"));
  // A burst is 500 events, and the few seconds that this takes add 20 each.
  EXPECT_LT(told_.size(), 1000u);
  EXPECT_EQ(The(IsResult).result().step(), 10);
}

TEST_F(RunProgramTest, ARunThatHasJustCompletedWasNotStopped) {
  stop_once_started_ = true;
  ASSERT_OK(Run(R"(
    trap 'ended 10 completed; exit 0' TERM
    started 4
    while :; do sleep 0.01; done)"));
  EXPECT_EQ(The(IsResult).result().outcome(), v1::COMPLETED);
}

TEST_F(RunProgramTest, AskedToFinishItLeavesItsModelWithoutOutcome) {
  finish_once_started_ = true;
  ASSERT_OK(Run(R"(
    trap 'echo weights > "$COMERA_RUN_MODEL/model.pt"
          ended 4 stopped; exit 0' TERM
    started 4
    while :; do sleep 0.01; done)"));
  EXPECT_EQ(The(IsResult).result().outcome(), v1::OUTCOME_UNSPECIFIED);
  EXPECT_EQ(The(IsResult).result().step(), 4);
  EXPECT_EQ(ReadFile(absl::StrCat(task_.work_dir(), "/targets/",
                                  BestModelName(3), "/model.pt"))
                .value_or(""),
            "weights\n");
}

TEST_F(RunProgramTest, NothingIsLeftOfWhatItUsedMeanwhile) {
  ASSERT_OK(Run("echo x > \"$COMERA_RUN_CHECKPOINTS/step-1.pt\""));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(left, Not(Contains(HasSubstr("program-"))));
}

TEST(ProgramEnvironmentTest, TheServicesVariablesReplaceTheJobs) {
  TrainerTask task;
  task.set_job("j");
  task.set_rank(1);
  task.set_world_size(4);
  task.set_host("10.0.0.7");
  v1::ProgramSpec& program = *task.mutable_spec()->mutable_program();
  (*program.mutable_environment())["RANK"] = "9";
  (*program.mutable_environment())["PYTHONUNBUFFERED"] = "0";
  v1::LateStage& late =
      *task.mutable_spec()->mutable_objective()->mutable_late();
  late.set_target_loss(2.5);
  late.set_target_bytes(4000);
  const char* const own[] = {"HOME=/home/u", "RANK=7", nullptr};
  const std::vector<std::string> variables =
      ProgramEnvironment(task, {"/e", "/c", "/m"}, "[fe80::1]:29500", own);
  for (const char* expected :
       {"HOME=/home/u", "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=fe80::1",
        "MASTER_PORT=29500", "PYTHONUNBUFFERED=0", "COMERA_TARGET_LOSS=2.5",
        "COMERA_TARGET_PARAMETERS=1000", "COMERA_RUN_EVENTS=/e",
        "COMERA_RUN_CHECKPOINTS=/c", "COMERA_RUN_MODEL=/m", "COMERA_JOB=j"}) {
    EXPECT_THAT(variables, Contains(expected));
  }
  EXPECT_THAT(variables, Not(Contains(HasSubstr("GLOO_SOCKET_IFNAME"))));
}

}  // namespace
}  // namespace comera::trainer
