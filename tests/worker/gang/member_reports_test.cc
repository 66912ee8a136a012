// Checks what the table tells the coordinator of its members' progress,
// silence, results and models, call by call without processes or IO.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/gang/member_table_fixture.h"
#include "worker/gang/member_table.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(MemberTableTest, AResultIsToldWithItsModelOnceThatIsStored) {
  const auto rank = Assignment("jobs/a", 1, 0, 0);
  Answer({rank});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  ASSERT_TRUE(uploading.has_value());
  EXPECT_EQ(Request().members(0).phase(), v1::MemberStatus::RUNNING);
  v1::Artifact model;
  model.set_name("jobs/a/models/final");
  table_.OnUpload(*uploading, Models{model}, kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_TRUE(news_);
  EXPECT_EQ(status.phase(), v1::MemberStatus::EXITED);
  EXPECT_EQ(status.result().outcome(), v1::TARGET_MET);
  EXPECT_EQ(status.model().name(), "jobs/a/models/final");
  EXPECT_EQ(status.model().validation_loss(), 1.25);
  // The job's files stay until the coordinator says that the job has ended: it
  // may have given up this attempt, and continue the job elsewhere.
  Answer({}, {rank});
  EXPECT_THAT(table_.PopFinishedJobs(), IsEmpty());
  v1::SynchronizeResponse ended;
  ended.add_ended_jobs("jobs/a");
  table_.OnResponse(ended);
  EXPECT_THAT(table_.PopFinishedJobs(), ElementsAre("jobs/a"));
}

TEST_F(MemberTableTest, EveryTargetOfAListHasItsModel) {
  const auto rank = Assignment("jobs/a", 1, 0, 0);
  Answer({rank});
  Starts();
  v1::TrainerEvent result = Result();
  for (double loss : {2.5, 3.5}) {
    v1::TargetResult* target = result.mutable_result()->add_targets();
    target->set_validation_loss(loss);
    target->set_size_parameters(static_cast<int64_t>(100 * loss));
  }
  table_.OnEvent(1, result);
  const auto uploading = table_.OnExit(1, {}, kNow);
  ASSERT_TRUE(uploading.has_value());
  Models models(3);
  models[0].set_name("jobs/a/models/target-1");
  models[1].set_name("jobs/a/models/target-2");
  models[2].set_name("jobs/a/models/final");
  table_.OnUpload(*uploading, models, kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.model().name(), "jobs/a/models/final");
  EXPECT_EQ(status.model().validation_loss(), 1.25);
  ASSERT_EQ(status.target_models_size(), 2);
  EXPECT_EQ(status.target_models(1).name(), "jobs/a/models/target-2");
  EXPECT_EQ(status.target_models(1).validation_loss(), 3.5);
  EXPECT_EQ(status.target_models(0).size_parameters(), 250);
}

TEST_F(MemberTableTest, ACallOfLargeReportsStaysBelowTheCoordinatorsLimit) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  v1::TrainerEvent large;
  large.mutable_rank_snapshot()->add_layers()->set_layer(
      std::string(900 << 10, 'x'));
  for (int i = 0; i < 40; ++i) table_.OnEvent(1, large);
  MemberExit exit;
  exit.code = 1;
  table_.OnExit(1, exit, kNow);
  const v1::SynchronizeRequest request = Request();
  EXPECT_LT(request.ByteSizeLong(), 8 << 20);
  EXPECT_GE(request.reports_size(), 4);
  EXPECT_EQ(request.members(0).phase(), v1::MemberStatus::RUNNING);
}

// The attack: many jobs end at once, each with a result of nearly a MiB.
TEST_F(MemberTableTest, LargeResultsTakeTurns) {
  std::vector<v1::Slot> slots(20);
  for (int i = 0; i < 20; ++i) slots[i].set_index(i);
  MemberTable table(slots, [this] { return steady_; });
  v1::SynchronizeResponse wanted;
  for (int i = 0; i < 20; ++i) {
    *wanted.add_desired() =
        Assignment("jobs/a" + std::to_string(i), 1, 0, /*slot=*/i);
  }
  table.OnResponse(wanted);
  v1::TrainerEvent result = Result();
  result.mutable_result()->set_reason(std::string(1000 << 10, 'x'));
  const auto starts = table.Reconcile(kNow).start;
  ASSERT_THAT(starts, SizeIs(20));
  for (const auto& start : starts) table.OnEvent(start.id, result);
  size_t told = 0;
  const auto call = [&] {
    v1::SynchronizeRequest request;
    table.Fill(&request);
    EXPECT_LT(request.ByteSizeLong(), 8 << 20);
    v1::SynchronizeResponse response = wanted;
    for (const v1::ProgressReport& report : request.reports()) {
      v1::ReportAck* ack = response.add_report_acks();
      ack->set_job(report.job());
      ack->set_attempt(report.attempt());
      ack->set_number(report.number());
    }
    for (const v1::MemberStatus& status : request.members()) {
      if (status.phase() != v1::MemberStatus::EXITED) continue;
      EXPECT_TRUE(status.has_result());
      ++told;
      v1::MemberKey* key = response.add_forget();
      key->set_job(status.job());
      key->set_attempt(status.attempt());
    }
    table.OnResponse(response);
  };
  // The reports arrive while the models are being uploaded.
  for (int i = 0; i < 20; ++i) call();
  EXPECT_EQ(told, 0);
  for (const auto& start : starts) {
    const auto uploading = table.OnExit(start.id, {}, kNow);
    ASSERT_TRUE(uploading.has_value());
    table.OnUpload(*uploading, Models(1), kNow);
  }
  for (int i = 0; i < 20; ++i) call();
  EXPECT_EQ(told, 20);
}

TEST_F(MemberTableTest, AModelIsDeliveredThoughItsMemberWasStopped) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  Answer({});
  EXPECT_THAT(table_.Reconcile(kNow).stop_retrying, SizeIs(1));
  table_.OnUpload(*uploading, Models(1), kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::EXITED);
  EXPECT_TRUE(status.has_result());
}

TEST_F(MemberTableTest, AModelThatTheCoordinatorRefusesEndsItsMember) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  Answer({});
  table_.OnUpload(*uploading, absl::AbortedError("no running attempt"), kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::EXITED);
  EXPECT_FALSE(status.has_result());
}

TEST_F(MemberTableTest, AModelThatCannotBeStoredIsAFailure) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  table_.OnUpload(*uploading, absl::FailedPreconditionError("no files"), kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::INTERNAL);
  EXPECT_FALSE(Request().members(0).has_result());
}

TEST_F(MemberTableTest, AModelForWhichThereIsNoRoomIsTheUsersFailure) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  table_.OnUpload(*uploading, absl::ResourceExhaustedError("alice's quota"),
                  kNow);
  const v1::Failure failure = Request().members(0).failure();
  EXPECT_EQ(failure.failure_class(), v1::USER);
  EXPECT_THAT(failure.message(), HasSubstr("alice's quota"));
}

TEST_F(MemberTableTest, OnlyRank0Reports) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  Starts();
  EXPECT_TRUE(table_.OnEvent(1, Heartbeat(1)));
  EXPECT_TRUE(table_.OnEvent(1, Heartbeat(2)));  // Same stage: no report.
  EXPECT_TRUE(table_.OnEvent(2, Heartbeat(3)));
  EXPECT_FALSE(table_.OnEvent(3, Heartbeat(4)));
  const v1::SynchronizeRequest request = Request();
  EXPECT_EQ(request.reports_size(), 1);
  EXPECT_EQ(request.members(0).step(), 2);
  EXPECT_EQ(request.members(1).step(), 3);
  EXPECT_EQ(request.members(1).phase(), v1::MemberStatus::RUNNING);
}

TEST_F(MemberTableTest, TheEndIsToldAfterTheLastReport) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  v1::TrainerEvent checkpoint;
  for (int step = 0; step < 600; ++step) {
    checkpoint.mutable_checkpoint()->set_step(step);
    table_.OnEvent(1, checkpoint);
  }
  MemberExit crash;
  crash.signal = 11;
  table_.OnExit(1, crash, kNow);
  v1::SynchronizeRequest request = Request();
  EXPECT_EQ(request.reports_size(), 500);
  EXPECT_EQ(request.members(0).phase(), v1::MemberStatus::RUNNING);
  EXPECT_FALSE(request.members(0).has_failure());
  v1::SynchronizeResponse response;
  v1::ReportAck* ack = response.add_report_acks();
  ack->set_job("jobs/a");
  ack->set_attempt(1);
  ack->set_number(500);
  table_.OnResponse(response);
  request = Request();
  EXPECT_TRUE(news_);
  EXPECT_EQ(request.reports_size(), 100);
  EXPECT_EQ(request.members(0).phase(), v1::MemberStatus::EXITED);
}

TEST_F(MemberTableTest, NewsAreChangesOfPhaseAndReports) {
  Answer({Assignment("jobs/a", 1, 1, 0)});
  Starts();
  Request();
  EXPECT_TRUE(news_);
  Answer({Assignment("jobs/a", 1, 1, 0)});
  Request();
  EXPECT_FALSE(news_);
  table_.OnEvent(1, Heartbeat(1));
  Request();
  EXPECT_TRUE(news_);
  // An unanswered call's news remain news.
  Request();
  EXPECT_TRUE(news_);
}

TEST_F(MemberTableTest, Complaint01_TellsForHowLongAMemberStandsStill) {
  Answer({Assignment("jobs/a", 1, 1, 0)});
  Starts();
  table_.OnEvent(1, Heartbeat(3));
  for (int i = 0; i < 10; ++i) {
    steady_ += absl::Seconds(2);
    table_.OnEvent(1, Heartbeat(3));
    Request();
  }
  EXPECT_EQ(Request().members(0).stalled().seconds(), 20);
  EXPECT_EQ(Request().members(0).silent().seconds(), 0);
  for (int i = 0; i < 10; ++i) {
    steady_ += absl::Seconds(2);
    Request();
  }
  EXPECT_EQ(Request().members(0).silent().seconds(), 20);
  // Work other than steps is progress too.
  v1::TrainerEvent event = Heartbeat(3);
  event.mutable_heartbeat()->set_work(1);
  table_.OnEvent(1, event);
  EXPECT_EQ(Request().members(0).stalled().seconds(), 0);
}

// An activity that is cut in the status is the same one the next time.
TEST_F(MemberTableTest, ALongActivityIsNoProgress) {
  Answer({Assignment("jobs/a", 1, 1, 0)});
  Starts();
  v1::TrainerEvent event = Heartbeat(3);
  event.mutable_heartbeat()->set_activity(std::string(1000, 'a'));
  for (int i = 0; i <= 10; ++i) {
    table_.OnEvent(1, event);
    steady_ += absl::Seconds(2);
    Request();
  }
  EXPECT_EQ(Request().members(0).activity().size(), 200u);
  EXPECT_EQ(Request().members(0).stalled().seconds(), 22);
}

// This daemon was stopped for an hour, and could not read what members sent.
TEST_F(MemberTableTest, Complaint03_OwnSilenceIsNotTheRanks) {
  Answer({Assignment("jobs/a", 1, 1, 0)});
  Starts();
  table_.OnEvent(1, Heartbeat(3));
  Request();
  steady_ += absl::Hours(1);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.silent().seconds(), 0);
  EXPECT_EQ(status.stalled().seconds(), 0);
}

TEST_F(MemberTableTest, OnAFullDiskSilenceMeansNothing) {
  Answer({Assignment("jobs/a", 1, 1, 0)});
  Starts();
  table_.OnEvent(1, Heartbeat(3));
  v1::SynchronizeRequest request;
  for (int i = 0; i < 10; ++i) {
    steady_ += absl::Seconds(5);
    request.Clear();
    table_.Fill(&request, /*cut_off=*/false, /*disk_full=*/true);
  }
  EXPECT_EQ(request.members(0).silent().seconds(), 0);
  EXPECT_EQ(request.members(0).stalled().seconds(), 0);
  // From when there is room again the member has as long as any.
  steady_ += absl::Seconds(5);
  EXPECT_EQ(Request().members(0).silent().seconds(), 5);
}

TEST_F(MemberTableTest, AnAttemptWithManyReportsDoesNotHoldUpOthers) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/b", 1, 0, 1)});
  Starts();
  v1::TrainerEvent large;
  large.mutable_incident()->set_message(std::string(100000, 'x'));
  for (int i = 0; i < 100; ++i) table_.OnEvent(1, large);
  v1::TrainerEvent small;
  small.mutable_incident()->set_message("y");
  table_.OnEvent(2, small);
  MemberExit failed;
  failed.code = 1;
  table_.OnExit(2, failed, kNow);
  const v1::SynchronizeRequest request = Request();
  EXPECT_EQ(request.reports(request.reports_size() - 1).job(), "jobs/b");
  EXPECT_GT(request.reports_size(), 10);
  EXPECT_EQ(request.members(1).phase(), v1::MemberStatus::EXITED);
  // Even if both have many, the largest gets through in one of two calls.
  large.mutable_incident()->set_message(std::string(2000000, 'x'));
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/c", 1, 0, 1)},
         {Assignment("jobs/b", 1, 0, 1)});
  ASSERT_THAT(Starts(), ElementsAre(3));
  table_.OnEvent(3, large);
  bool told = false;
  for (int call = 0; call < 2; ++call) {
    const v1::SynchronizeRequest next = Request();
    for (const v1::ProgressReport& report : next.reports()) {
      told = told || report.job() == "jobs/c";
    }
  }
  EXPECT_TRUE(told);
}

TEST_F(MemberTableTest, AMissingModelIsSentAgain) {
  const auto rank = Assignment("jobs/a", 1, 0, 0);
  Answer({rank});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  v1::Artifact model;
  model.set_name("jobs/a/models/final");
  table_.OnUpload(*uploading, Models{model}, kNow);
  Request();
  v1::SynchronizeResponse response;
  *response.add_desired() = rank;
  response.add_missing_models()->set_job("jobs/a");
  response.mutable_missing_models(0)->set_attempt(1);
  table_.OnResponse(response);
  EXPECT_EQ(table_.Reconcile(kNow).upload_again.size(), 1);
  EXPECT_EQ(Request().members(0).phase(), v1::MemberStatus::RUNNING);
  table_.OnUpload(*uploading, Models{model}, kNow);
  EXPECT_EQ(Request().members(0).phase(), v1::MemberStatus::EXITED);
  EXPECT_TRUE(Request().members(0).has_result());
}

}  // namespace
}  // namespace comera::worker
