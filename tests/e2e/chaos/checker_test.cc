// Plants each kind of broken promise and checks that the checker finds it.
#include "tests/e2e/chaos/checker.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/store/sqlite_job_store.h"
#include "tests/e2e/chaos/evidence.h"
#include "tests/e2e/process.h"

namespace comera::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kJob[] = "jobs/aaaaaaaaaaaa";
constexpr double kLosses[] = {0, 3.5, 3.25, 3.125, 3.0625};
constexpr double kValidationLoss = 2.9;

// The job trained four steps in two attempts: the first reached step 3, the
// second continued after step 2.
class CheckerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK(MakeDirectories(folder_));
    v1::Job& job = *record_.mutable_job();
    record_.set_serial(1);
    job.set_name(kJob);
    job.set_request_id("chaos-0");
    job.mutable_spec()->set_display_name("spec");
    job.set_state(v1::SUCCEEDED);
    job.set_attempt(2);
    AddModel();
    State(1, v1::RUNNING);
    Begin(1, 0);
    for (int step : {1, 2, 3}) Step(1, step);
    State(1, v1::QUEUED);
    State(2, v1::RUNNING);
    Begin(2, 2);
    for (int step : {3, 4}) Step(2, step);
    v1::JobEvent& result = Add(2);
    result.mutable_result()->set_validation_loss(kValidationLoss);
    State(2, v1::SUCCEEDED);
    for (int step = 1; step <= 4; ++step) {
      references_["spec"].loss_of_step[step] = kLosses[step];
    }
    references_["spec"].validation_loss = kValidationLoss;
    accepted_ = {{"chaos-0", kJob}};
  }

  v1::JobEvent& Add(int64_t attempt) {
    v1::JobEvent& event = events_.emplace_back();
    event.set_job(kJob);
    event.set_sequence(static_cast<int64_t>(events_.size()));
    event.set_attempt(attempt);
    return event;
  }
  void State(int64_t attempt, v1::JobState state) {
    Add(attempt).mutable_state_change()->set_state(state);
  }
  void Begin(int64_t attempt, int64_t step) {
    Add(attempt).mutable_run_info()->set_resumed_from_step(step);
  }
  void Step(int64_t attempt, int step) {
    v1::StepMetrics& metrics = *Add(attempt).mutable_metrics();
    metrics.set_step(step);
    metrics.set_loss(kLosses[step]);
  }
  v1::JobEvent& Nth(v1::JobEvent::EventCase kind, int n) {
    for (v1::JobEvent& event : events_) {
      if (event.event_case() == kind && n-- == 0) return event;
    }
    ADD_FAILURE() << "no such event";
    return events_.front();
  }

  std::string ModelPath() const {
    return folder_ + "/artifacts/aaaaaaaaaaaa/final/config.json";
  }
  void AddModel() {
    const std::string contents = "{\"layers\": 1}";
    ASSERT_OK(MakeDirectories(folder_ + "/artifacts/aaaaaaaaaaaa/final"));
    ASSERT_OK(WriteFileAtomically(ModelPath(), contents));
    v1::Artifact& model = *record_.mutable_job()->add_models();
    model.set_name(absl::StrCat(kJob, "/models/final"));
    v1::ArtifactFile& file = *model.add_files();
    file.set_path("config.json");
    file.set_size_bytes(static_cast<int64_t>(contents.size()));
    file.set_sha256(Sha256Hex(contents));
  }
  void WriteMemberLog(const std::string& worker, int starts) {
    const std::string logs = folder_ + "/" + worker + "/jobs/aaaaaaaaaaaa/logs";
    ASSERT_OK(MakeDirectories(logs));
    std::string log;
    for (int i = 0; i < starts; ++i) {
      log +=
          "I1120 19:00:00.000000 1 member_main.cc:1] training job=aaaaaaaaaaaa "
          "attempt=2 rank=0 ranks=1\n";
    }
    ASSERT_OK(WriteFileAtomically(logs + "/2-0.log", log));
  }

  // Finds the violations through a real store and real files, as after a run.
  std::vector<std::string> Violations() {
    const std::string path = folder_ + "/jobs.sqlite";
    {
      auto store = server::SqliteJobStore::Open(path, {});
      EXPECT_OK(store);
      server::StoreBatch batch;
      batch.records = {record_};
      batch.events = events_;
      EXPECT_OK((*store)->Commit(batch));
    }
    Evidence evidence;
    evidence.accepted = accepted_;
    EXPECT_OK(ReadStore(path, &evidence));
    EXPECT_OK(ReadMemberLogs(folder_ + "/worker0", &evidence));
    EXPECT_OK(ReadMemberLogs(folder_ + "/worker1", &evidence));
    CheckModels(folder_, &evidence);
    evidence.orphans = ProcessesNaming(folder_);
    return Check(evidence, references_);
  }

  std::string folder_;
  server::JobRecord record_;
  std::vector<v1::JobEvent> events_;
  std::map<std::string, std::string> accepted_;
  References references_;
};

TEST_F(CheckerTest, NothingIsBroken) {
  WriteMemberLog("worker0", 1);
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, AnAcceptedJobIsLost) {
  accepted_["chaos-1"] = "jobs/bbbbbbbbbbbb";
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("accepted: jobs/bbbb")));
}

TEST_F(CheckerTest, AJobThatNobodyWasToldOf) {
  accepted_.clear();
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("nobody was told")));
}

TEST_F(CheckerTest, AJobHangsForEver) {
  record_.mutable_job()->set_state(v1::RUNNING);
  events_.pop_back();
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("is RUNNING")));
}

TEST_F(CheckerTest, AJobEndsTwice) {
  State(2, v1::SUCCEEDED);
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("after its end"),
                                        HasSubstr("ended 2 times")));
}

TEST_F(CheckerTest, AJobFails) {
  record_.mutable_job()->set_state(v1::FAILED);
  Nth(v1::JobEvent::kStateChange, 3)
      .mutable_state_change()
      ->set_state(v1::FAILED);
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("succeeded: ")));
}

TEST_F(CheckerTest, AStepIsTrainedTwiceInOneAttempt) {
  Nth(v1::JobEvent::kMetrics, 4) = Nth(v1::JobEvent::kMetrics, 3);
  Nth(v1::JobEvent::kMetrics, 4)
      .set_sequence(Nth(v1::JobEvent::kMetrics, 3).sequence() + 1);
  EXPECT_THAT(Violations(),
              ElementsAre(HasSubstr("trained step 3 after step 3")));
}

TEST_F(CheckerTest, AnAttemptBeginsTwice) {
  Nth(v1::JobEvent::kStateChange, 2).mutable_run_info();
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("began twice in attempt 2")));
}

TEST_F(CheckerTest, AnOldAttemptSpeaksAgain) {
  Nth(v1::JobEvent::kMetrics, 4).set_attempt(1);
  EXPECT_THAT(Violations(), testing::Contains(HasSubstr("attempt 1 after 2")));
}

TEST_F(CheckerTest, AMemberBeginsOnTwoWorkers) {
  WriteMemberLog("worker0", 1);
  WriteMemberLog("worker1", 1);
  EXPECT_THAT(Violations(),
              ElementsAre(AllOf(StartsWith("once: rank 0"),
                                HasSubstr("2 times in attempt 2"))));
}

TEST_F(CheckerTest, ALossDiffersInItsLastBit) {
  v1::StepMetrics& metrics = *Nth(v1::JobEvent::kMetrics, 4).mutable_metrics();
  metrics.set_loss(std::nextafter(metrics.loss(), 4));
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("losses: ")));
}

TEST_F(CheckerTest, TheFinalLossDiffers) {
  Nth(v1::JobEvent::kResult, 0).mutable_result()->set_validation_loss(2.8);
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("validation loss")));
}

TEST_F(CheckerTest, AModelIsCutShort) {
  ASSERT_OK(WriteFileAtomically(ModelPath(), "{\"layers\""));
  EXPECT_THAT(Violations(), ElementsAre(AllOf(StartsWith("models: "),
                                              HasSubstr("bytes, not"))));
}

TEST_F(CheckerTest, AModelHasOtherBytes) {
  ASSERT_OK(WriteFileAtomically(ModelPath(), "{\"layers\": 2}"));
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("another checksum")));
}

TEST_F(CheckerTest, AModelIsMissing) {
  record_.mutable_job()->clear_models();
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("has none")));
}

TEST_F(CheckerTest, AProcessIsLeft) {
  const Process left({"/bin/sh", "-c", "sleep 60; :", folder_},
                     folder_ + "/log");
  // Before exec the child has this test's command line.
  while (ProcessesNaming(folder_).empty()) {
  }
  EXPECT_THAT(Violations(),
              ElementsAre(AllOf(StartsWith("orphans: "), HasSubstr("sleep"))));
}

TEST_F(CheckerTest, ADamagedStoreIsNoProof) {
  ASSERT_OK(
      WriteFileAtomically(folder_ + "/broken.sqlite", std::string(8192, 'x')));
  Evidence evidence;
  EXPECT_FALSE(ReadStore(folder_ + "/broken.sqlite", &evidence).ok());
  EXPECT_FALSE(ReadStore(folder_ + "/none.sqlite", &evidence).ok());
}

}  // namespace
}  // namespace comera::e2e
