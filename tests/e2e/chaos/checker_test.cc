// Plants each kind of broken promise and checks that the checker finds it.
#include "tests/e2e/chaos/checker.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/training_client.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/client/fake_training_service.h"
#include "tests/e2e/chaos/evidence.h"
#include "tests/e2e/chaos/store_watch.h"
#include "tests/e2e/process.h"

namespace comera::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJob[] = "jobs/aaaaaaaaaaaa";
constexpr double kLosses[] = {0, 3.5, 3.25, 3.125, 3.0625};
constexpr double kValidationLoss = 2.9;
constexpr char kStart[] =
    "I1120 19:00:00.000000 1 member_main.cc:1] training job=aaaaaaaaaaaa "
    "attempt=2 rank=0 ranks=1\n";

// The job trained four steps in two attempts: the first reached step 3, and was
// lost; the second continued after step 2, which was saved.
class CheckerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK(MakeDirectories(folder_));
    job_.set_name(kJob);
    job_.set_request_id("chaos-0");
    job_.mutable_spec()->set_display_name("spec");
    job_.set_state(v1::SUCCEEDED);
    job_.set_attempt(2);
    AddModel();
    State(1, v1::STARTING);
    State(1, v1::RUNNING);
    Begin(1, 0);
    for (int step : {1, 2}) Step(1, step);
    Save(1, 2);
    Step(1, 3);
    Lose(1, v1::NODE_LOST);
    State(2, v1::STARTING);
    State(2, v1::RUNNING);
    Begin(2, 2);
    for (int step : {3, 4}) Step(2, step);
    v1::TrainingResult& result = *Add(2).mutable_result();
    result.set_validation_loss(kValidationLoss);
    result.set_outcome(v1::COMPLETED);
    State(2, v1::SUCCEEDED);
    for (int step = 1; step <= 4; ++step) {
      references_["spec"].loss_of_step[step] = kLosses[step];
    }
    references_["spec"].validation_loss = kValidationLoss;
    references_["spec"].outcome = v1::COMPLETED;
    accepted_ = {{"chaos-0", kJob}};
    service_.download =
        [this](const v1::DownloadArtifactRequest& request, grpc::ServerContext*,
               grpc::ServerWriter<v1::DownloadArtifactResponse>* writer) {
          if (request.path() != "config.json") {
            return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such file");
          }
          v1::DownloadArtifactResponse response;
          response.set_offset(request.offset());
          response.set_data(stored_.substr(
              std::min<size_t>(request.offset(), stored_.size())));
          writer->Write(response);
          return grpc::Status::OK;
        };
    service_.read_log =
        [this](const v1::ReadLogRequest& request, grpc::ServerContext*,
               grpc::ServerWriter<v1::ReadLogResponse>* writer) {
          v1::ReadLogResponse response;
          response.set_attempt(request.attempt());
          if (request.attempt() == 2 && request.offset() == 0) {
            response.set_data(log_);
          }
          writer->Write(response);
          return grpc::Status::OK;
        };
    client_ = client::TrainingClient::Connect(service_.Start(), {});
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
  void Save(int64_t attempt, int64_t step) {
    Add(attempt).mutable_checkpoint()->set_step(step);
  }
  void Incident(int64_t attempt, v1::FailureClass failure_class,
                const std::string& message) {
    v1::Failure& incident = *Add(attempt).mutable_incident();
    incident.set_failure_class(failure_class);
    incident.set_message(message);
    incident.set_attempt(attempt);
  }
  // The attempt is lost, and the job tries again.
  void Lose(int64_t attempt, v1::FailureClass failure_class,
            const std::string& more = ", trying again") {
    Incident(attempt, failure_class, "gone");
    State(attempt, v1::QUEUED);
    events_.back().mutable_state_change()->set_reason(
        absl::StrCat("attempt ", attempt, " was lost (",
                     v1::FailureClass_Name(failure_class), ": gone)", more));
  }
  void Fail(int64_t attempt, v1::FailureClass failure_class,
            const std::string& message = "gone") {
    Incident(attempt, failure_class, message);
    State(attempt, v1::FAILED);
    v1::Failure& failure =
        *events_.back().mutable_state_change()->mutable_failure();
    failure.set_failure_class(failure_class);
    failure.set_message(message);
    job_.set_state(v1::FAILED);
  }
  void Start(int64_t attempt) {
    State(attempt, v1::STARTING);
    job_.set_attempt(attempt);
  }
  void Clear() {
    events_.clear();
    sightings_.clear();
    job_.set_attempt(0);
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

  void AddModel() {
    v1::Artifact& model = *job_.add_models();
    model.set_name(absl::StrCat(kJob, "/models/final"));
    v1::ArtifactFile& file = *model.add_files();
    file.set_path("config.json");
    file.set_size_bytes(static_cast<int64_t>(stored_.size()));
    file.set_sha256(Sha256Hex(stored_));
  }
  void WriteMemberLog(const std::string& worker, int starts) {
    const std::string logs = folder_ + "/" + worker + "/jobs/aaaaaaaaaaaa/logs";
    ASSERT_OK(MakeDirectories(logs));
    std::string log;
    for (int i = 0; i < starts; ++i) log += kStart;
    ASSERT_OK(WriteFileAtomically(logs + "/2-0.log", log));
  }

  // A line of the log of the worker that fetched a state.
  void Fetch(const std::string& worker, int64_t attempt, int64_t step,
             int64_t saved_by) {
    absl::StrAppend(
        &worker_logs_[worker],
        "I20261120 19:00:00.000000 1 worker_session_checkpoints.cc:1] goes on "
        "job=",
        kJob, " attempt=", attempt, " step=", step, " saved_by=", saved_by,
        " from=\"worker w2\"\n");
  }

  std::vector<std::string> Violations() {
    Evidence evidence;
    evidence.mixed_versions = mixed_versions_;
    evidence.answers = answers_;
    for (const auto& [worker, log] : worker_logs_) {
      const std::string path = absl::StrCat(folder_, "/", worker, ".log");
      EXPECT_OK(WriteFileAtomically(path, log));
      EXPECT_OK(ReadWorkerLog(path, &evidence));
    }
    evidence.accepted = accepted_;
    evidence.accepted_sweeps = accepted_sweeps_;
    evidence.jobs = {job_};
    evidence.sweeps = sweeps_;
    evidence.sightings[absl::StrCat(kJob, " at 127.0.0.1:1")] = sightings_;
    evidence.events[kJob] = events_;
    evidence.wishes[kJob] = wishes_;
    ReadLogs(client_.get(), &evidence);
    EXPECT_OK(ReadMemberLogs(folder_ + "/worker0", &evidence));
    EXPECT_OK(ReadMemberLogs(folder_ + "/worker1", &evidence));
    CheckModels(client_.get(), folder_ + "/models", &evidence);
    evidence.orphans = ProcessesNaming(folder_);
    return Check(evidence, references_);
  }

  std::string folder_;
  // What the service has of the model and of the log of member 0.
  std::string stored_ = "{\"layers\": 1}";
  std::string log_ = kStart;
  client::FakeTrainingService service_;
  std::unique_ptr<client::TrainingClient> client_;
  v1::Job job_;
  std::vector<v1::JobEvent> events_;
  std::map<std::string, std::string> accepted_;
  std::vector<std::string> accepted_sweeps_;
  std::map<std::string, v1::Sweep> sweeps_;
  Wishes wishes_;
  std::map<std::string, std::string> worker_logs_;
  std::vector<Answer> answers_;
  bool mixed_versions_ = false;
  std::vector<Sighting> sightings_ = {
      {v1::QUEUED, 0, 0}, {v1::RUNNING, 1, 0}, {v1::SUCCEEDED, 2, 1}};
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
  job_.set_state(v1::RUNNING);
  events_.pop_back();
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("is RUNNING")));
}

TEST_F(CheckerTest, AJobEndsTwice) {
  State(2, v1::SUCCEEDED);
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("after its end"),
                                        HasSubstr("ended 2 times")));
}

TEST_F(CheckerTest, AJobFails) {
  events_.pop_back();
  Fail(2, v1::USER);
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
  Nth(v1::JobEvent::kStateChange, 4)
      .mutable_run_info()
      ->set_resumed_from_step(2);
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("began twice in attempt 2")));
}

TEST_F(CheckerTest, AnOldAttemptSpeaksAgain) {
  Nth(v1::JobEvent::kMetrics, 4).set_attempt(1);
  EXPECT_THAT(Violations(), Contains(HasSubstr("attempt 1 after 2")));
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
  stored_ = "{\"layers\"";
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("models: ")));
}

TEST_F(CheckerTest, AModelHasOtherBytes) {
  stored_ = "{\"layers\": 2}";
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("models: ")));
}

TEST_F(CheckerTest, AModelIsMissing) {
  job_.clear_models();
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("has none")));
}

TEST_F(CheckerTest, AProcessIsLeft) {
  // It is one process, and its log stays empty.
  const Process left({"/usr/bin/tail", "-f", folder_ + "/log"},
                     folder_ + "/log");
  // Before exec the child has this test's command line.
  while (ProcessesNaming(folder_).empty()) {
  }
  EXPECT_THAT(Violations(),
              ElementsAre(AllOf(StartsWith("orphans: "), HasSubstr("tail"))));
}

TEST_F(CheckerTest, AClientReadsOfTwoBeginningsInALog) {
  log_ += kStart;
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("in attempt 2 by its log")));
}

TEST_F(CheckerTest, StepsAreLostInSilence) {
  v1::Failure& incident = *Nth(v1::JobEvent::kIncident, 0).mutable_incident();
  incident.set_failure_class(v1::PREEMPTED);
  EXPECT_THAT(Violations(),
              Contains(HasSubstr("went back from step 3 to step 2")));
}

TEST_F(CheckerTest, AnIncidentOfALaterAttemptExplainsNothing) {
  Nth(v1::JobEvent::kIncident, 0) = Nth(v1::JobEvent::kMetrics, 2);
  Incident(2, v1::NODE_LOST, "gone");
  EXPECT_THAT(Violations(), Contains(StartsWith("progress: ")));
}

TEST_F(CheckerTest, ASavedStateIsGivenUpInSilence) {
  Nth(v1::JobEvent::kRunInfo, 1).mutable_run_info()->set_resumed_from_step(1);
  EXPECT_THAT(
      Violations(),
      ElementsAre(HasSubstr("from the checkpoint of step 2 to step 1")));
}

TEST_F(CheckerTest, ASavedStateIsGivenUpByAnIncidentThatNamesTheStep) {
  v1::RunInfo& begin = *Nth(v1::JobEvent::kRunInfo, 1).mutable_run_info();
  v1::Failure& incident = *Nth(v1::JobEvent::kIncident, 0).mutable_incident();
  begin.set_resumed_from_step(1);
  incident.set_failure_class(v1::CHECKPOINT_UNREACHABLE);
  incident.set_message("goes on from step 1 in place of step 2: away");
  const auto falls = [this] {
    int count = 0;
    for (const std::string& violation : Violations()) {
      count += absl::StartsWith(violation, "progress: ") ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(falls(), 0);
  // Another one than it begins from.
  incident.set_message("goes on from step 0 in place of step 2: away");
  EXPECT_EQ(falls(), 1);
  incident.set_failure_class(v1::CHECKPOINT_DAMAGED);
  incident.set_message("the state of step 2 cannot be read");
  EXPECT_EQ(falls(), 0);
  incident.set_message("the state of step 1 cannot be read");
  EXPECT_EQ(falls(), 1);
}

TEST_F(CheckerTest, AJobBeginsAnewAgainstItsOwnersWord) {
  v1::RunInfo& begin = *Nth(v1::JobEvent::kRunInfo, 1).mutable_run_info();
  v1::Failure& incident = *Nth(v1::JobEvent::kIncident, 0).mutable_incident();
  begin.set_resumed_from_step(0);
  incident.set_failure_class(v1::CHECKPOINT_UNREACHABLE);
  incident.set_message("begins at step 0 again, as retries.start_over says: -");
  EXPECT_THAT(Violations(), Contains(StartsWith("progress: ")));
  job_.mutable_spec()->mutable_retries()->set_start_over(true);
  EXPECT_THAT(Violations(), Not(Contains(StartsWith("progress: "))));
  job_.mutable_spec()->mutable_retries()->set_start_over(false);
  incident.set_failure_class(v1::USER);
  incident.set_message("begun again at step 0 by its owner's wish");
  EXPECT_THAT(Violations(), Not(Contains(StartsWith("progress: "))));
}

TEST_F(CheckerTest, AJobThatStartsFromAnotherBeginsThereAgain) {
  Clear();
  job_.mutable_spec()->mutable_start_from()->set_checkpoint(
      "jobs/b/checkpoints/2");
  Start(1);
  Begin(1, 2);
  Step(1, 3);
  Save(1, 3);
  Lose(1, v1::NODE_LOST);
  Start(2);
  Incident(2, v1::CHECKPOINT_UNREACHABLE,
           "begins from start_from.checkpoint again");
  Begin(2, 2);
  EXPECT_THAT(Violations(), Not(Contains(StartsWith("progress: "))));
  Nth(v1::JobEvent::kRunInfo, 1).mutable_run_info()->set_resumed_from_step(1);
  EXPECT_THAT(Violations(), Contains(StartsWith("progress: ")));
}

TEST_F(CheckerTest, AnAttemptGoesOnFromAStateThatWasGivenUp) {
  // The state of step 2 is that of the attempt before.
  Fetch("worker0", 2, 2, 1);
  EXPECT_THAT(Violations(), IsEmpty());
  // The first attempt went on unseen, and saved more.
  events_.pop_back();
  Lose(2, v1::NODE_LOST);
  Start(3);
  Begin(3, 3);
  State(3, v1::SUCCEEDED);
  Fetch("worker1", 3, 3, 1);
  const auto states = [this] {
    std::vector<std::string> found;
    for (const std::string& violation : Violations()) {
      if (absl::StartsWith(violation, "states: ")) found.push_back(violation);
    }
    return found;
  };
  EXPECT_THAT(states(),
              ElementsAre(HasSubstr("attempt 3 goes on from step 3 of attempt "
                                    "1, which attempt 2 gave up")));
  // The same step, saved by the attempt that trained it again.
  worker_logs_.clear();
  Fetch("worker1", 3, 3, 2);
  EXPECT_THAT(states(), IsEmpty());
  // Nothing was given up before the first attempt's own step.
  worker_logs_.clear();
  Nth(v1::JobEvent::kRunInfo, 2).mutable_run_info()->set_resumed_from_step(2);
  Fetch("worker1", 3, 2, 1);
  EXPECT_THAT(states(), IsEmpty());
}

TEST_F(CheckerTest, AWorkerChoosesTheState) {
  Fetch("worker0", 2, 2, 0);
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("was told of no state")));
  mixed_versions_ = true;
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, AnAttemptBeginsFromAnotherStepThanItWasTold) {
  Fetch("worker0", 2, 1, 1);
  EXPECT_THAT(
      Violations(),
      ElementsAre(HasSubstr("go on from step 1 and began from step 2")));
  worker_logs_.clear();
  // An attempt that did not begin is not judged.
  Fetch("worker0", 3, 1, 1);
  EXPECT_THAT(Violations(), IsEmpty());
  // The coordinator says so itself.
  Nth(v1::JobEvent::kIncident, 0)
      .mutable_incident()
      ->set_message("attempt 2 was to go on from step 3 and began from step 2");
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("states: ")));
  mixed_versions_ = true;
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, LinesOfOtherWorkersLogsAreNotRead) {
  // An earlier version, a line that was cut short, and another line.
  worker_logs_["worker0"] = absl::StrCat(
      "] goes on job=", kJob, " attempt=2 step=1 from=\"this disk\"\n",
      "] goes on job=", kJob, " attempt=2 step=1 saved_by=1 from",
      "\n] fetched job=", kJob, " attempt=2 step=1 saved_by=1 from=\"w\"\n");
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, ALeaderAnswersAfterItsSuccessor) {
  answers_ = {{"127.0.0.1:1", 3, 0, false},
              {"127.0.0.1:2", 4, 3, false},
              {"127.0.0.1:2", 4, 4, false}};
  EXPECT_THAT(Violations(), IsEmpty());
  answers_.push_back({"127.0.0.1:1", 3, 4, false});
  answers_.push_back({"127.0.0.1:1", 3, 4, false});
  EXPECT_THAT(Violations(),
              ElementsAre(AllOf(HasSubstr("127.0.0.1:1 answered in term 3"),
                                Not(HasSubstr("fence")))));
  answers_.push_back({"127.0.0.1:1", 3, 4, true});
  EXPECT_THAT(Violations(),
              ElementsAre(StartsWith("leaders: "), HasSubstr("fence")));
}

// A store of checkpoints and what a client hears of one job.
class StoreWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    watch_ = std::make_unique<StoreWatch>(folder_);
    job_.set_name(kJob);
    job_.set_state(v1::RUNNING);
  }
  std::string State() const {
    return folder_ +
           "/checkpoints/aaaaaaaaaaaa/step-000000000025.attempt-1.checkpoint";
  }
  void Save() {
    ASSERT_OK(MakeDirectories(folder_ + "/checkpoints/aaaaaaaaaaaa"));
    ASSERT_OK(WriteFileAtomically(State(), "state"));
  }
  void CheckFor(int seconds) {
    for (int i = 0; i < 2 * seconds; ++i) {
      now_ += absl::Milliseconds(500);
      watch_->Check({job_}, now_, now_);
    }
  }

  std::string folder_;
  std::unique_ptr<StoreWatch> watch_;
  v1::Job job_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(StoreWatchTest, AJobLosesItsStates) {
  CheckFor(5);
  Save();
  CheckFor(5);
  EXPECT_THAT(watch_->violations(), IsEmpty());
  std::remove(State().c_str());
  CheckFor(1);
  // A later one takes nothing back.
  Save();
  CheckFor(5);
  EXPECT_THAT(watch_->violations(), ElementsAre(HasSubstr(kJob)));
}

TEST_F(StoreWatchTest, AJobThatHasEndedNeedsNone) {
  Save();
  CheckFor(1);
  std::remove(State().c_str());
  // It had ended, which the client hears late.
  CheckFor(1);
  job_.set_state(v1::CANCELLED);
  CheckFor(5);
  job_.set_state(v1::RUNNING);
  CheckFor(5);
  EXPECT_THAT(watch_->violations(), IsEmpty());
  Save();
  CheckFor(1);
  std::remove(State().c_str());
  CheckFor(1);
  watch_->Check({}, now_, now_);
  CheckFor(5);
  EXPECT_THAT(watch_->violations(), IsEmpty());
}

TEST_F(CheckerTest, AnAttemptIsChargedWithoutAnIncident) {
  Nth(v1::JobEvent::kIncident, 0) = Nth(v1::JobEvent::kStateChange, 1);
  EXPECT_THAT(
      Violations(),
      Contains(AllOf(StartsWith("budgets: "),
                     HasSubstr("lost attempt 1 to NODE_LOST without"))));
}

TEST_F(CheckerTest, AnAttemptIsSkipped) {
  for (v1::JobEvent& event : events_) {
    if (event.attempt() == 2) event.set_attempt(3);
  }
  job_.set_attempt(3);
  EXPECT_THAT(Violations(),
              ElementsAre(HasSubstr("started attempt 3 after attempt 1")));
  job_.set_attempt(4);
  EXPECT_THAT(Violations(), Contains(HasSubstr("tells of 4 attempts, 3 have")));
}

// Histories of jobs that lose attempts.
class BudgetTest : public CheckerTest {
 protected:
  std::vector<std::string> Budgets() {
    std::vector<std::string> found;
    for (const std::string& violation : Violations()) {
      if (absl::StartsWith(violation, "budgets: ")) found.push_back(violation);
    }
    return found;
  }
  void Budget(int retries) {
    Clear();
    job_.mutable_spec()->mutable_retries()->set_infrastructure(retries);
    job_.mutable_spec()->mutable_retries()->set_start_over(true);
  }
};

TEST_F(BudgetTest, AJobFailsOnceItsBudgetIsSpent) {
  Budget(1);
  Start(1);
  Lose(1, v1::NODE_LOST);
  Start(2);
  Fail(2, v1::RANK_LOST);
  EXPECT_THAT(Budgets(), IsEmpty());
}

TEST_F(BudgetTest, AJobFailsBeforeItsBudgetIsSpent) {
  Budget(2);
  Start(1);
  Lose(1, v1::NODE_LOST);
  Start(2);
  Fail(2, v1::RANK_LOST);
  EXPECT_THAT(Budgets(), ElementsAre(HasSubstr("2 of 2 retries charged")));
}

TEST_F(BudgetTest, AJobGoesOnThoughItsBudgetIsSpent) {
  Budget(1);
  for (int attempt : {1, 2}) {
    Start(attempt);
    Lose(attempt, v1::NODE_LOST);
  }
  EXPECT_THAT(Budgets(), ElementsAre(AllOf(HasSubstr("went on"),
                                           HasSubstr("2 of 1 retries"))));
}

TEST_F(BudgetTest, ALossThatIsNotChargedSpendsNothing) {
  Budget(1);
  Start(1);
  Lose(1, v1::NODE_LOST, ", charged to no budget because");
  Start(2);
  Lose(2, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), IsEmpty());
  Start(3);
  Fail(3, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), IsEmpty());
}

TEST_F(BudgetTest, ProgressTakesAChargeBack) {
  Budget(1);
  Start(1);
  Lose(1, v1::NODE_LOST);
  Start(2);
  Save(2, 2);
  Lose(2, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), IsEmpty());
  // What was saved before is no progress.
  Start(3);
  Save(3, 2);
  Lose(3, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), ElementsAre(HasSubstr("went on")));
}

TEST_F(BudgetTest, ProgressThatIsNotCounted) {
  Budget(1);
  Start(1);
  Lose(1, v1::NODE_LOST);
  Start(2);
  Save(2, 2);
  Fail(2, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), ElementsAre(HasSubstr("1 of 1 retries charged")));
}

TEST_F(BudgetTest, ACheckpointOfAGangThatEndsMayNotCount) {
  Budget(0);
  Start(1);
  Incident(1, v1::NODE_LOST, "gone");
  Save(1, 2);
  Fail(1, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), IsEmpty());
}

TEST_F(BudgetTest, AnAttemptThatIsAliveAfterAllIsNotCharged) {
  Budget(1);
  Start(1);
  Lose(1, v1::NODE_LOST);
  State(1, v1::RUNNING);
  Lose(1, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), IsEmpty());
  Start(2);
  Fail(2, v1::NODE_LOST);
  EXPECT_THAT(Budgets(), IsEmpty());
}

TEST_F(BudgetTest, AResumedJobHasANewBudget) {
  Budget(0);
  wishes_.reopens = 2;
  for (int attempt : {1, 2}) {
    Start(attempt);
    Fail(attempt, v1::NODE_LOST);
    State(attempt, v1::QUEUED);
  }
  EXPECT_THAT(Budgets(), IsEmpty());
}

TEST_F(BudgetTest, ATimeLimitEndsAJobTooEarly) {
  Clear();
  job_.mutable_spec()->mutable_time_limit()->set_seconds(60);
  Start(1);
  Fail(1, v1::USER, "time_limit of 1m exceeded");
  const absl::Time begin = absl::FromUnixSeconds(1000);
  const auto seen = [&](int64_t after_s) {
    sightings_ = {{v1::QUEUED, 0, 0, begin, begin},
                  {v1::FAILED, 1, 1, begin + absl::Seconds(after_s),
                   absl::InfiniteFuture()}};
  };
  seen(61);
  EXPECT_THAT(Budgets(), IsEmpty());
  seen(59);
  EXPECT_THAT(Budgets(), ElementsAre(HasSubstr("before its time limit of 1m")));
}

TEST_F(CheckerTest, AJobGoesOnAfterItsEndUnasked) {
  events_.pop_back();
  State(2, v1::CANCELLED);
  State(2, v1::QUEUED);
  job_.set_state(v1::CANCELLED);
  sightings_.back().state = v1::CANCELLED;
  sightings_.push_back({v1::QUEUED, 2, 1});
  wishes_.cancels = 1;
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("has events after its end"),
                                        HasSubstr("QUEUED after CANCELLED")));
  State(2, v1::CANCELLED);
  wishes_.reopens = 1;
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, AJobIsCancelledThoughNobodyAsked) {
  events_.pop_back();
  State(2, v1::CANCELLED);
  job_.set_state(v1::CANCELLED);
  sightings_.pop_back();
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("succeeded: ")));
}

TEST_F(CheckerTest, ASucceededJobIsNotResumed) {
  wishes_.reopens = 1;
  State(2, v1::QUEUED);
  sightings_.push_back({v1::QUEUED, 2, 1});
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("has events after its end"),
                                        HasSubstr("QUEUED after SUCCEEDED")));
}

TEST_F(CheckerTest, ADeletedJobIsBack) {
  wishes_.deletions = 1;
  wishes_.deleted = true;
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("was deleted")));
}

TEST_F(CheckerTest, APinnedModelIsGone) {
  const std::string model = absl::StrCat(kJob, "/models/final");
  wishes_.pinned = {model};
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("was pinned")));
  job_.mutable_models(0)->set_pinned(true);
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, TheOutcomeDiffers) {
  Nth(v1::JobEvent::kResult, 0).mutable_result()->set_outcome(v1::TARGET_MET);
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("ended TARGET_MET")));
}

TEST_F(CheckerTest, TheModelOfACancelledAttemptIsNotTheResult) {
  v1::TrainingResult& result = *Add(1).mutable_result();
  result.set_validation_loss(3.0);
  const v1::JobEvent left = events_.back();
  events_.pop_back();
  // After the first attempt's last step.
  events_.insert(events_.begin() + 7, left);
  for (size_t i = 0; i < events_.size(); ++i) {
    events_[i].set_sequence(static_cast<int64_t>(i) + 1);
  }
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, AClientSawAnEndedJobTrain) {
  sightings_.push_back({v1::RUNNING, 2, 1});
  EXPECT_THAT(Violations(),
              ElementsAre(HasSubstr("was RUNNING after SUCCEEDED")));
}

TEST_F(CheckerTest, AClientSawAnOlderAttempt) {
  sightings_.insert(sightings_.end() - 1, {v1::RUNNING, 2, 1});
  sightings_.insert(sightings_.end() - 1, {v1::RUNNING, 1, 0});
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("attempt 1 after attempt 2"),
                                        HasSubstr("0 incidents after 1")));
}

TEST_F(CheckerTest, ASweepIsLostHangsOrFails) {
  job_.set_sweep("sweeps/a");
  accepted_.clear();
  accepted_sweeps_ = {"sweeps/a"};
  EXPECT_THAT(Violations(), ElementsAre(HasSubstr("sweeps/a is not known")));
  v1::Sweep& sweep = sweeps_["sweeps/a"];
  sweep.set_state(v1::Sweep::ACTIVE);
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("terminal: sweeps/a")));
  sweep.set_state(v1::Sweep::FAILED);
  EXPECT_THAT(Violations(), ElementsAre(StartsWith("succeeded: sweeps/a")));
  sweep.set_state(v1::Sweep::SUCCEEDED);
  EXPECT_THAT(Violations(), IsEmpty());
}

TEST_F(CheckerTest, LossesOfAGangOfVariableSizeAreNotCompared) {
  job_.mutable_spec()->mutable_resources()->set_min_processes(1);
  Nth(v1::JobEvent::kResult, 0).mutable_result()->set_validation_loss(2.8);
  EXPECT_THAT(Violations(), IsEmpty());
}

}  // namespace
}  // namespace comera::e2e
