// Sweeps through a real server: jobs, workers by hand, restarts.
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/resource_names.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::Duration kBound = absl::Minutes(1);

v1::SweepSpec TwoTargets() {
  v1::SweepSpec spec;
  v1::JobSpec& job = *spec.mutable_job();
  job = TestSpec(1);
  job.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  v1::LateStage& late = *job.mutable_objective()->mutable_late();
  late.set_target_loss(3);
  late.set_max_steps(50);
  spec.mutable_grid()->add_targets()->set_target_ratio(0.9);
  spec.mutable_grid()->add_targets()->set_target_ratio(0.8);
  return spec;
}

class SweepServiceTest : public ServerFixture {
 protected:
  SweepServiceTest() { Connect(); }

  void Connect() { sweeps_ = v1::SweepService::NewStub(channel_); }

  void Restart() {
    sweeps_.reset();
    RestartServer();
    Connect();
  }

  grpc::Status CreateSweep(const v1::SweepSpec& spec, v1::Sweep* sweep,
                           bool validate_only = false) {
    v1::CreateSweepRequest request;
    *request.mutable_spec() = spec;
    request.set_validate_only(validate_only);
    return sweeps_->CreateSweep(Context().get(), request, sweep);
  }

  v1::Sweep GetSweep(const std::string& name) {
    v1::GetSweepRequest request;
    request.set_name(name);
    v1::Sweep sweep;
    const grpc::Status status =
        sweeps_->GetSweep(Context().get(), request, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sweep;
  }

  // The engine works after the calls that move it.
  v1::Sweep Until(const std::string& name,
                  const std::function<bool(const v1::Sweep&)>& reached) {
    v1::Sweep sweep;
    const absl::Time end = absl::Now() + kBound;
    while (absl::Now() < end) {
      sweep = GetSweep(name);
      if (reached(sweep)) return sweep;
      server_->host().TickNow();
    }
    ADD_FAILURE() << sweep.DebugString();
    return sweep;
  }

  // Runs what the worker is given to its end: a point each, and the state of
  // early stages. Stops once it was given so many jobs and nothing more comes.
  // Before, nothing may come for a while: the scheduler pauses after a pass
  // that the machine held up.
  void WorkOff(Worker& worker, size_t jobs = 3) {
    const absl::Time end = absl::Now() + kBound;
    for (int idle = 0; idle < 20 || assigned_.size() < jobs;) {
      ASSERT_LT(absl::Now(), end) << assigned_.size() << " of " << jobs;
      server_->host().TickNow();
      const v1::SynchronizeResponse response = Sync(worker);
      idle = response.desired_size() == 0 ? idle + 1 : 0;
      worker.ranks.clear();
      worker.reports.clear();
      for (const v1::MemberAssignment& rank : response.desired()) Finish(rank);
      for (const auto& status : ended_) worker.ranks.push_back(status);
      for (const auto& report : reports_) worker.reports.push_back(report);
      ended_.clear();
      reports_.clear();
    }
  }

  void Finish(const v1::MemberAssignment& rank) {
    assigned_[rank.job()] = rank.spec();
    const bool early = rank.spec().objective().early().only();
    v1::ProgressReport& report = reports_.emplace_back();
    report.set_job(rank.job());
    report.set_attempt(rank.attempt());
    report.set_number(1);
    v1::ParetoPoint& point = *report.mutable_event()->mutable_pareto_point();
    point.set_validation_loss(early ? 4 : 2);
    point.set_size_parameters(
        early ? 9000
              : static_cast<int64_t>(
                    10000 * rank.spec().objective().late().target_ratio()));
    v1::MemberStatus& status = ended_.emplace_back();
    status.set_job(rank.job());
    status.set_attempt(rank.attempt());
    status.set_rank(0);
    status.set_slot(rank.slot());
    status.set_phase(v1::MemberStatus::EXITED);
    status.mutable_result()->set_outcome(early ? v1::COMPLETED
                                               : v1::TARGET_MET);
    status.mutable_result()->set_step(early ? 100 : 150);
    if (!early) return;
    const std::string state = "the training state";
    v1::Artifact& artifact = *status.add_target_models();
    artifact.set_name(absl::StrCat(rank.job(), "/models/early-stage"));
    *artifact.add_files() = Describe(kTrainingStateFile, state);
    EXPECT_TRUE(
        Upload(artifact.name(), rank.attempt(), artifact.files(0), state).ok());
  }

  std::unique_ptr<v1::SweepService::Stub> sweeps_;
  std::map<std::string, v1::JobSpec> assigned_;
  std::vector<v1::MemberStatus> ended_;
  std::vector<v1::ProgressReport> reports_;
  Worker worker_{"w1"};
};

TEST_F(SweepServiceTest, RunsASweepFromEarlyStageToFront) {
  v1::Sweep sweep;
  ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep).ok());
  ASSERT_EQ(sweep.runs_size(), 2);
  ASSERT_EQ(sweep.stages_size(), 1);
  WorkOff(worker_);
  sweep = Until(sweep.name(), [](const v1::Sweep& s) {
    return s.state() == v1::Sweep::SUCCEEDED;
  });
  EXPECT_EQ(sweep.outcome(), v1::TARGET_MET);
  EXPECT_EQ(assigned_.size(), 3u);
  const std::string stage = sweep.stages(0).job();
  for (const v1::SweepRun& run : sweep.runs()) {
    EXPECT_EQ(assigned_.at(run.job()).start_from().checkpoint(),
              absl::StrCat(stage, "/checkpoints/100"));
    EXPECT_EQ(Get(run.job()).sweep(), sweep.name());
  }
  ASSERT_EQ(sweep.front().points_size(), 1);
  EXPECT_EQ(sweep.front().points(0).run(), 1);
  // The state is where workers fetch it.
  ASSERT_EQ(Get(stage).checkpoints_size(), 1);
  std::string data;
  ASSERT_TRUE(Download(absl::StrCat(stage, "/checkpoints/100"),
                       kTrainingStateFile, 0, &data)
                  .ok());
  EXPECT_EQ(data, "the training state");
  EXPECT_EQ(Download(absl::StrCat(stage, "/checkpoints/99"), kTrainingStateFile,
                     0, &data)
                .error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(SweepServiceTest, GoesOnAfterARestartAtAnyMoment) {
  v1::Sweep sweep;
  ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep).ok());
  Restart();
  WorkOff(worker_);
  Restart();
  Until(sweep.name(),
        [](const v1::Sweep& s) { return s.state() == v1::Sweep::SUCCEEDED; });
  const v1::Sweep before = GetSweep(sweep.name());
  Restart();
  EXPECT_EQ(GetSweep(sweep.name()).SerializeAsString(),
            before.SerializeAsString());
  EXPECT_EQ(before.front().points_size(), 1);
  EXPECT_EQ(assigned_.size(), 3u);
}

TEST_F(SweepServiceTest, CancelLeavesNoJobBehind) {
  v1::Sweep sweep;
  ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep).ok());
  sweep = Until(sweep.name(),
                [](const v1::Sweep& s) { return !s.stages(0).job().empty(); });
  v1::CancelSweepRequest request;
  request.set_name(sweep.name());
  request.set_reason("enough");
  ASSERT_TRUE(sweeps_->CancelSweep(Context().get(), request, &sweep).ok());
  sweep = Until(sweep.name(), [](const v1::Sweep& s) {
    return s.state() == v1::Sweep::CANCELLED;
  });
  EXPECT_EQ(sweep.reason(), "cancelled: enough");
  EXPECT_EQ(Get(sweep.stages(0).job()).state(), v1::CANCELLED);
  v1::DeleteSweepRequest deletion;
  deletion.set_name(sweep.name());
  v1::DeleteSweepResponse response;
  EXPECT_TRUE(sweeps_->DeleteSweep(Context().get(), deletion, &response).ok());
  EXPECT_EQ(
      sweeps_->DeleteSweep(Context().get(), deletion, &response).error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST_F(SweepServiceTest, JobsOfASweepAreNotDeletedBeforeItsEnd) {
  v1::Sweep sweep;
  ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep).ok());
  sweep = Until(sweep.name(),
                [](const v1::Sweep& s) { return !s.stages(0).job().empty(); });
  v1::DeleteJobRequest request;
  request.set_name(sweep.stages(0).job());
  const absl::Time end = absl::Now() + kBound;
  while (Get(request.name()).state() != v1::SUCCEEDED && absl::Now() < end) {
    server_->host().TickNow();
    const v1::SynchronizeResponse response = Sync(worker_);
    for (const v1::MemberAssignment& rank : response.desired()) {
      if (rank.job() == request.name() && ended_.empty()) Finish(rank);
    }
    worker_.ranks = ended_;
    worker_.reports = reports_;
  }
  ASSERT_EQ(Get(request.name()).state(), v1::SUCCEEDED);
  v1::DeleteJobResponse response;
  const grpc::Status status =
      training_->DeleteJob(Context().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("belongs to " + sweep.name()));
}

TEST_F(SweepServiceTest, WatchTellsTheWholeStoryAndResumes) {
  v1::Sweep sweep;
  ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep).ok());
  v1::WatchSweepRequest request;
  request.set_name(sweep.name());
  auto context = Context();
  auto reader = sweeps_->WatchSweep(context.get(), request);
  v1::WatchSweepResponse message;
  ASSERT_TRUE(reader->Read(&message));
  ASSERT_TRUE(message.has_sweep());
  WorkOff(worker_);
  Until(sweep.name(),
        [](const v1::Sweep& s) { return s.state() == v1::Sweep::SUCCEEDED; });
  std::set<int> succeeded;
  bool front = false;
  int64_t last = 0, middle = 0;
  v1::Sweep::State state = v1::Sweep::ACTIVE;
  while (reader->Read(&message)) {
    ASSERT_TRUE(message.has_event());
    EXPECT_GT(message.event().sequence(), last);
    last = message.event().sequence();
    if (middle == 0) middle = last;
    if (message.event().run().state() == v1::SWEEP_RUN_SUCCEEDED) {
      succeeded.insert(message.event().run().index());
    }
    front = front || message.event().has_front();
    if (message.event().has_state_change()) {
      state = message.event().state_change().state();
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(succeeded, (std::set<int>{0, 1}));
  EXPECT_TRUE(front);
  EXPECT_EQ(state, v1::Sweep::SUCCEEDED);

  request.set_after_sequence(middle);
  auto again = Context();
  reader = sweeps_->WatchSweep(again.get(), request);
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_TRUE(message.has_sweep());
  int64_t next = middle;
  while (reader->Read(&message)) {
    EXPECT_EQ(message.event().sequence(), ++next);
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(next, last);
}

TEST_F(SweepServiceTest, ValidateOnlyListsTheRunsAndCreatesNothing) {
  v1::Sweep sweep;
  ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep, true).ok());
  EXPECT_EQ(sweep.name(), "");
  ASSERT_EQ(sweep.runs_size(), 2);
  EXPECT_EQ(sweep.runs(0).label(), "ratio=0.9");
  EXPECT_EQ(sweep.runs(1).stage(), 0);
  v1::ListSweepsResponse list;
  ASSERT_TRUE(sweeps_->ListSweeps(Context().get(), {}, &list).ok());
  EXPECT_EQ(list.sweeps_size(), 0);
}

TEST_F(SweepServiceTest, RefusesByField) {
  v1::SweepSpec spec = TwoTargets();
  spec.mutable_grid()->mutable_targets(1)->set_target_ratio(1.5);
  v1::Sweep sweep;
  const grpc::Status status = CreateSweep(spec, &sweep);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("runs[1].objective.late.target_ratio"));
  v1::GetSweepRequest request;
  request.set_name("sweeps/../x");
  EXPECT_EQ(sweeps_->GetSweep(Context().get(), request, &sweep).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_name("sweeps/none");
  EXPECT_EQ(sweeps_->GetSweep(Context().get(), request, &sweep).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(SweepServiceTest, ListsInPages) {
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) {
    v1::Sweep sweep;
    ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep).ok());
    names.insert(names.begin(), sweep.name());
  }
  v1::ListSweepsRequest request;
  request.set_page_size(2);
  std::vector<std::string> listed;
  do {
    v1::ListSweepsResponse page;
    ASSERT_TRUE(sweeps_->ListSweeps(Context().get(), request, &page).ok());
    EXPECT_LE(page.sweeps_size(), 2);
    for (const v1::Sweep& sweep : page.sweeps()) {
      listed.push_back(sweep.name());
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, names);
  request.set_page_token("junk");
  v1::ListSweepsResponse page;
  EXPECT_EQ(sweeps_->ListSweeps(Context().get(), request, &page).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

// The attack: a page of a thousand sweeps was a GiB, copied on the event loop.
TEST_F(SweepServiceTest, APageOfLargeSweepsIsNoLargerThanOthers) {
  v1::SweepSpec spec;
  *spec.mutable_job() = TestSpec(1);
  spec.set_max_parallel(1);
  for (int i = 0; i < 200; ++i) {
    v1::FieldValue& field = *spec.add_list()->add_fields();
    field.set_path("data.code_directory.roots");
    field.set_value(absl::StrCat("/", i, std::string(4000, 'x')));
  }
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) {
    v1::Sweep sweep;
    const grpc::Status status = CreateSweep(spec, &sweep);
    ASSERT_TRUE(status.ok()) << status.error_message();
    names.insert(names.begin(), sweep.name());
  }
  v1::ListSweepsRequest request;
  request.set_page_size(1000);
  std::vector<std::string> listed;
  do {
    v1::ListSweepsResponse page;
    const grpc::Status status =
        sweeps_->ListSweeps(Context().get(), request, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_LE(page.ByteSizeLong(), (2 << 20) + 1024);
    for (const v1::Sweep& sweep : page.sweeps()) {
      listed.push_back(sweep.name());
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, names);
}

TEST_F(SweepServiceTest, Complaint20_OneFrontOverJobsAndSweeps) {
  v1::Sweep sweep;
  ASSERT_TRUE(CreateSweep(TwoTargets(), &sweep).ok());
  v1::JobSpec single = TwoTargets().job();
  single.mutable_objective()->mutable_late()->set_target_ratio(0.7);
  const v1::Job job = Create(single);
  WorkOff(worker_, 4);
  Until(sweep.name(),
        [](const v1::Sweep& s) { return s.state() == v1::Sweep::SUCCEEDED; });
  v1::ComputeFrontRequest request;
  request.add_names(sweep.name());
  request.add_names(job.name());
  request.mutable_reference()->set_validation_loss(5);
  request.mutable_reference()->set_size_parameters(10000);
  v1::SweepFront front;
  const grpc::Status status =
      sweeps_->ComputeFront(Context().get(), request, &front);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(front.points_size(), 1);
  EXPECT_EQ(front.points(0).job(), job.name());
  EXPECT_DOUBLE_EQ(front.hypervolume(), 3.0 * 3000);
  request.add_names("jobs/none");
  EXPECT_EQ(
      sweeps_->ComputeFront(Context().get(), request, &front).error_code(),
      grpc::StatusCode::NOT_FOUND);
  request.set_names(2, "queues/a");
  EXPECT_EQ(
      sweeps_->ComputeFront(Context().get(), request, &front).error_code(),
      grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SweepServiceTest, AJobStartsOnlyFromWhatIsKept) {
  v1::JobSpec spec = TwoTargets().job();
  spec.mutable_objective()->mutable_late()->set_target_ratio(0.9);
  const v1::Job whole = Create(spec);
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  v1::Job job;
  request.mutable_spec()->mutable_start_from()->set_checkpoint(
      "jobs/none/checkpoints/100");
  EXPECT_EQ(training_->CreateJob(Context().get(), request, &job).error_code(),
            grpc::StatusCode::NOT_FOUND);
  request.mutable_spec()->mutable_start_from()->set_checkpoint(
      absl::StrCat(whole.name(), "/checkpoints/100"));
  EXPECT_EQ(training_->CreateJob(Context().get(), request, &job).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace comera::server
