// Checks the decisions of MemberTable call by call, without processes or IO.

#include "worker/gang/member_table.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/gang/member_failure.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1000000);

v1::MemberAssignment Assignment(const std::string& job, int64_t attempt,
                                int rank, int slot) {
  v1::MemberAssignment assignment;
  assignment.set_job(job);
  assignment.set_attempt(attempt);
  assignment.set_rank(rank);
  assignment.set_world_size(2);
  assignment.set_local_world_size(2);
  assignment.set_slot(slot);
  return assignment;
}

using Models = std::vector<v1::Artifact>;

class MemberTableTest : public testing::Test {
 protected:
  MemberTableTest() : table_(Slots(), [this] { return steady_; }) {}

  static std::vector<v1::Slot> Slots() {
    std::vector<v1::Slot> slots(2);
    slots[1].set_index(1);
    return slots;
  }

  // Answers with a response that wants `desired` and forgets `forget`.
  void Answer(const std::vector<v1::MemberAssignment>& desired,
              const std::vector<v1::MemberAssignment>& forget = {}) {
    v1::SynchronizeResponse response;
    for (const auto& assignment : desired) {
      *response.add_desired() = assignment;
    }
    for (const auto& assignment : forget) {
      v1::MemberKey* key = response.add_forget();
      key->set_job(assignment.job());
      key->set_attempt(assignment.attempt());
      key->set_rank(assignment.rank());
    }
    table_.OnResponse(response);
  }

  // Returns the ids of the members that Reconcile starts.
  std::vector<GangMembers::Id> Starts() {
    std::vector<GangMembers::Id> ids;
    for (const auto& start : table_.Reconcile(kNow).start) {
      ids.push_back(start.id);
    }
    return ids;
  }

  v1::SynchronizeRequest Request() {
    v1::SynchronizeRequest request;
    news_ = table_.Fill(&request);
    return request;
  }

  v1::TrainerEvent Heartbeat(int64_t step, v1::Stage stage = v1::EARLY) {
    v1::TrainerEvent event;
    event.mutable_heartbeat()->set_step(step);
    event.mutable_heartbeat()->set_stage(stage);
    return event;
  }

  v1::TrainerEvent Result() {
    v1::TrainerEvent event;
    event.mutable_result()->set_outcome(v1::TARGET_MET);
    event.mutable_result()->set_validation_loss(1.25);
    return event;
  }

  absl::Time steady_ = absl::FromUnixSeconds(5);
  MemberTable table_;
  bool news_ = false;
};

TEST_F(MemberTableTest, StartsWhatIsWantedOnce) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  EXPECT_THAT(Starts(), ElementsAre(1, 2));
  EXPECT_THAT(Starts(), IsEmpty());
  // The same answer comes again.
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  EXPECT_THAT(Starts(), IsEmpty());
  EXPECT_EQ(Request().members_size(), 2);
  EXPECT_EQ(Request().members(0).phase(), v1::MemberStatus::STARTING);
}

TEST_F(MemberTableTest, AMemberThatIsPreparedStarts) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  const GangMembers::Id id = Starts()[0];
  table_.Preparing(id);
  v1::MemberKey key;
  key.set_job("jobs/a");
  key.set_attempt(1);
  EXPECT_TRUE(table_.IsAlive(key));
  steady_ += absl::Seconds(100);
  table_.PreparationMoved(id, "fetching");
  steady_ += absl::Seconds(3);
  table_.Reconcile(kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::STARTING);
  EXPECT_EQ(status.activity(), "fetching");
  EXPECT_FALSE(status.has_silent());
  EXPECT_LT(status.stalled().seconds(), 5);
}

TEST_F(MemberTableTest, AnUnreachableStateIsAClassOfItsOwn) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  const GangMembers::Id id = Starts()[0];
  table_.FetchFailed(id,
                     WithFailureClass(absl::NotFoundError("nobody has it"),
                                      v1::CHECKPOINT_UNREACHABLE),
                     kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::EXITED);
  EXPECT_EQ(status.failure().failure_class(), v1::CHECKPOINT_UNREACHABLE);
  EXPECT_EQ(status.failure().message(), "member 0: nobody has it");
  v1::MemberKey key;
  key.set_job("jobs/a");
  key.set_attempt(1);
  EXPECT_FALSE(table_.IsAlive(key));
}

TEST_F(MemberTableTest, AnUnknownSlotIsNotUsed) {
  Answer({Assignment("jobs/a", 1, 0, 2)});
  EXPECT_THAT(Starts(), IsEmpty());
}

TEST_F(MemberTableTest, StopsWhatIsNotWantedOnce) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  Answer({});
  EXPECT_THAT(table_.Reconcile(kNow).stop, ElementsAre(1));
  EXPECT_THAT(table_.Reconcile(kNow).stop, IsEmpty());
  table_.OnExit(1, {}, kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.phase(), v1::MemberStatus::EXITED);
  EXPECT_FALSE(status.has_failure());
}

TEST_F(MemberTableTest, ASlotIsFreeOnlyWhenItsProcessIsGone) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  EXPECT_THAT(Starts(), ElementsAre(1));
  Answer({Assignment("jobs/b", 1, 0, 0)});
  EXPECT_THAT(Starts(), IsEmpty());
  table_.OnExit(1, {}, kNow);
  EXPECT_THAT(Starts(), ElementsAre(2));
}

TEST_F(MemberTableTest, EpochsOfAJobDoNotOverlap) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  Answer({Assignment("jobs/a", 2, 0, 1)});
  EXPECT_THAT(Starts(), IsEmpty());
  table_.OnExit(1, {}, kNow);
  EXPECT_THAT(Starts(), ElementsAre(2));
}

TEST_F(MemberTableTest, WhatEndedIsNeverStartedAgain) {
  const auto rank = Assignment("jobs/a", 2, 0, 0);
  Answer({rank});
  Starts();
  MemberExit crash;
  crash.signal = 11;
  table_.OnExit(1, crash, kNow);
  Request();
  Answer({rank}, {rank});
  EXPECT_THAT(Starts(), IsEmpty());
  EXPECT_EQ(Request().members_size(), 0);
  Answer({Assignment("jobs/a", 1, 0, 0)});
  EXPECT_THAT(Starts(), IsEmpty());
  Answer({Assignment("jobs/a", 3, 0, 0)});
  EXPECT_THAT(Starts(), ElementsAre(2));
}

TEST_F(MemberTableTest, AnEndIsKeptUntilForgotten) {
  const auto rank = Assignment("jobs/a", 1, 1, 0);
  Answer({rank});
  Starts();
  MemberExit crash;
  crash.signal = 11;
  crash.log_tail = "bad \xff byte";
  crash.peak_memory_bytes = 77;
  table_.OnExit(1, crash, kNow);
  for (int i = 0; i < 2; ++i) {
    const v1::MemberStatus status = Request().members(0);
    EXPECT_EQ(status.failure().failure_class(), v1::RANK_LOST);
    EXPECT_EQ(status.failure().rank(), 1);
    EXPECT_EQ(status.failure().log_tail(), "bad ? byte");
    EXPECT_EQ(status.peak_memory_bytes(), 77);
    Answer({});
  }
  Request();
  Answer({}, {rank});
  EXPECT_EQ(Request().members_size(), 0);
  EXPECT_EQ(table_.PopFinishedAttempts().size(), 1);
  EXPECT_THAT(table_.PopFinishedJobs(), IsEmpty());
}

TEST_F(MemberTableTest, AForgetForWhatWasNotToldIsPassedOver) {
  const auto rank = Assignment("jobs/a", 1, 0, 0);
  Answer({rank});
  Starts();
  Answer({rank}, {rank});
  EXPECT_EQ(Request().members_size(), 1);
}

TEST_F(MemberTableTest, TheTrainersOwnFailureWins) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  v1::TrainerEvent event;
  event.mutable_failure()->set_failure_class(v1::NAN_LOSS);
  table_.OnEvent(1, event);
  MemberExit exit;
  exit.code = 1;
  exit.log_tail = "tail";
  table_.OnExit(1, exit, kNow);
  const v1::MemberStatus status = Request().members(0);
  EXPECT_EQ(status.failure().failure_class(), v1::NAN_LOSS);
  EXPECT_EQ(status.failure().attempt(), 1);
  EXPECT_EQ(status.failure().log_tail(), "tail");
}

TEST_F(MemberTableTest, KernelKillsAreOutOfMemory) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  MemberExit exit;
  exit.signal = 9;
  exit.out_of_memory_kill = true;
  table_.OnExit(1, exit, kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::OUT_OF_MEMORY);
}

TEST_F(MemberTableTest, Member0MustGiveAResult) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  Starts();
  EXPECT_EQ(table_.OnExit(1, {}, kNow), std::nullopt);
  EXPECT_EQ(table_.OnExit(2, {}, kNow), std::nullopt);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::RANK_LOST);
  EXPECT_FALSE(Request().members(1).has_failure());
}

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

TEST_F(MemberTableTest, AJobIsNotFinishedWhileANewerEpochRunsHere) {
  const auto old = Assignment("jobs/a", 1, 0, 0);
  const auto next = Assignment("jobs/a", 2, 0, 0);
  Answer({old});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  ASSERT_TRUE(uploading.has_value());
  v1::Artifact model;
  model.set_name("jobs/a/models/final");
  table_.OnUpload(*uploading, Models{model}, kNow);
  Request();
  // The coordinator had given up the first attempt meanwhile.
  Answer({next}, {old});
  EXPECT_EQ(Starts().size(), 1);
  EXPECT_THAT(table_.PopFinishedJobs(), IsEmpty());
  table_.OnExit(2, {}, kNow);
  Request();
  Answer({}, {next});
  EXPECT_THAT(table_.PopFinishedJobs(), IsEmpty());
}

TEST_F(MemberTableTest, LongFailuresAreCut) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  v1::TrainerEvent event;
  event.mutable_failure()->set_message(std::string(1 << 20, 'x'));
  table_.OnEvent(1, event);
  MemberExit exit;
  exit.code = 1;
  table_.OnExit(1, exit, kNow);
  EXPECT_EQ(Request().members(0).failure().message().size(), 4096);
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

TEST_F(MemberTableTest, AFailedStartIsAnEnd) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.StartFailed(1, absl::NotFoundError("no trainer"), kNow);
  EXPECT_FALSE(table_.HasProcesses());
  EXPECT_EQ(Request().members(0).phase(), v1::MemberStatus::EXITED);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::INTERNAL);
}

TEST_F(MemberTableTest, AnUnfitSlotIsNotTheJobsFault) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.StartFailed(1, absl::FailedPreconditionError("hot"), kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::RANK_LOST);
}

TEST_F(MemberTableTest, AFullDiskAtTheStartIsNotTheJobsFault) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.StartFailed(1, absl::ResourceExhaustedError("no space left"), kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::DISK_FULL);
}

TEST_F(MemberTableTest, ShutDownStopsAllAndTellsThemLost) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  Starts();
  table_.OnEvent(1, Result());
  const auto uploading = table_.OnExit(1, {}, kNow);
  ASSERT_TRUE(uploading.has_value());
  table_.ShutDown();
  const MemberTable::Actions actions = table_.Reconcile(kNow);
  EXPECT_THAT(actions.stop, ElementsAre(2));
  EXPECT_EQ(actions.stop_retrying.size(), 1);
  table_.OnExit(2, {}, kNow);
  const v1::SynchronizeRequest request = Request();
  EXPECT_EQ(request.members_size(), 2);
  // One member had its result, but not its model; the other saved and ended.
  EXPECT_EQ(request.members(0).failure().failure_class(), v1::NODE_LOST);
  EXPECT_EQ(request.members(1).failure().failure_class(), v1::PREEMPTED);
}

TEST_F(MemberTableTest, GangsAcrossWorkersMeetUntilTheirFirstStep) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  EXPECT_THAT(table_.SpanningGangs(), IsEmpty());
  EXPECT_FALSE(table_.AnyMeeting());
  v1::MemberAssignment wide = Assignment("jobs/b", 4, 0, 1);
  wide.set_local_world_size(1);
  Answer({Assignment("jobs/a", 1, 0, 0), wide});
  Starts();
  EXPECT_TRUE(table_.AnyMeeting());
  table_.OnEvent(2, Heartbeat(1));
  EXPECT_FALSE(table_.AnyMeeting());
  // Entries are still exchanged, because a member may announce its end to the
  // others.
  EXPECT_THAT(table_.SpanningGangs(), ElementsAre(Pair(Pair("jobs/b", 4), 1)));
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

TEST_F(MemberTableTest, Complaint02_WhatHangsIsKilledOnce) {
  const auto rank = Assignment("jobs/a", 1, 0, 0);
  Answer({rank});
  Starts();
  v1::SynchronizeResponse response;
  response.add_kill()->set_job("jobs/a");
  response.mutable_kill(0)->set_attempt(1);
  table_.OnResponse(response);
  MemberTable::Actions actions = table_.Reconcile(kNow);
  EXPECT_THAT(actions.kill, ElementsAre(1));
  EXPECT_THAT(actions.stop, IsEmpty());
  EXPECT_THAT(table_.Reconcile(kNow).kill, IsEmpty());
  MemberExit exit;
  exit.signal = 9;
  exit.log_tail = "stuck";
  table_.OnExit(1, exit, kNow);
  EXPECT_FALSE(Request().members(0).has_failure());
  EXPECT_EQ(Request().members(0).log_tail(), "stuck");
}

TEST_F(MemberTableTest, AMemberThatDoesNotEndAfterItsResultHasSucceeded) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.OnEvent(1, Result());
  steady_ += absl::Seconds(29);
  EXPECT_THAT(table_.Reconcile(kNow).kill, IsEmpty());
  steady_ += absl::Seconds(2);
  EXPECT_THAT(table_.Reconcile(kNow).kill, ElementsAre(1));
  MemberExit exit;
  exit.signal = 9;
  EXPECT_TRUE(table_.OnExit(1, exit, kNow).has_value());
}

TEST_F(MemberTableTest, MembersWithoutACoordinatorSaveAndEnd) {
  Answer({Assignment("jobs/a", 1, 0, 0)});
  Starts();
  table_.GiveUpCoordinator("the coordinator was not heard for 10m");
  EXPECT_THAT(table_.Reconcile(kNow).stop, ElementsAre(1));
  // The coordinator answers again before the member has ended, and still wants
  // it.
  Answer({Assignment("jobs/a", 1, 0, 0)});
  table_.OnExit(1, {}, kNow);
  const v1::Failure failure = Request().members(0).failure();
  EXPECT_EQ(failure.failure_class(), v1::PREEMPTED);
  EXPECT_EQ(failure.message(), "the coordinator was not heard for 10m");
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

// Members of an earlier daemon that did not say how they ended.
class UnknownEndTest : public MemberTableTest {
 protected:
  UnknownEndTest() { exit_.known = false; }

  void Adopt(int rank) {
    MemberRecord record;
    record.set_id(rank + 1);
    *record.mutable_assignment() = Assignment("jobs/a", 1, rank, rank);
    table_.Adopt(record);
  }

  MemberExit exit_;
};

TEST_F(UnknownEndTest, IsALossOfAnyMember) {
  Adopt(0);
  Adopt(1);
  EXPECT_EQ(table_.OnExit(1, exit_, kNow), std::nullopt);
  EXPECT_EQ(table_.OnExit(2, exit_, kNow), std::nullopt);
  const v1::SynchronizeRequest request = Request();
  EXPECT_EQ(request.members(0).failure().failure_class(), v1::RANK_LOST);
  EXPECT_EQ(request.members(1).failure().failure_class(), v1::RANK_LOST);
}

TEST_F(UnknownEndTest, AfterAResultIsASuccess) {
  Adopt(0);
  table_.OnEvent(1, Result());
  EXPECT_TRUE(table_.OnExit(1, exit_, kNow).has_value());
  EXPECT_FALSE(Request().members(0).has_failure());
}

TEST_F(UnknownEndTest, OfAMemberThatIsToldToEndMayHaveLostItsState) {
  Adopt(1);
  table_.ShutDown();
  table_.Reconcile(kNow);
  table_.OnExit(2, exit_, kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::NODE_LOST);
}

TEST_F(MemberTableTest, Complaint13_APreemptionNoticeIsNoLossIfTheMemberSaved) {
  Answer({Assignment("jobs/a", 1, 0, 0), Assignment("jobs/a", 1, 1, 1)});
  Starts();
  table_.ShutDown();
  table_.Reconcile(kNow);
  table_.OnExit(1, {}, kNow);
  MemberExit killed;
  killed.signal = 9;  // at the end of its grace period
  table_.OnExit(2, killed, kNow);
  EXPECT_EQ(Request().members(0).failure().failure_class(), v1::PREEMPTED);
  EXPECT_EQ(Request().members(1).failure().failure_class(), v1::NODE_LOST);
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
