// Tests the sweeps' state machine with answers given by hand.
#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/sweep/sweep_engine_fixture.h"
#include "tests/server/test_spec.h"

namespace comera::server {
namespace {

using SweepEngineTest = SweepEngineFixture;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kAnySize = std::numeric_limits<size_t>::max();

bool ShowAll(const v1::Sweep&) { return true; }

v1::SweepSpec Grid(int targets, int seeds) {
  v1::SweepSpec spec;
  v1::JobSpec& job = *spec.mutable_job();
  job = TestSpec(1);
  job.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  v1::LateStage& late = *job.mutable_objective()->mutable_late();
  late.set_target_loss(3);
  late.set_max_steps(50);
  for (int i = 0; i < targets; ++i) {
    spec.mutable_grid()->add_targets()->set_target_ratio(0.9 - 0.1 * i);
  }
  for (int i = 0; i < seeds; ++i) spec.mutable_grid()->add_seeds(i + 1);
  return spec;
}

TEST_F(SweepEngineTest, EarlyStagesComeFirstAndOnceLateStagesFork) {
  Create(Grid(3, 2));
  ASSERT_EQ(sweep().runs_size(), 6);
  ASSERT_EQ(sweep().stages_size(), 2);
  ASSERT_THAT(asked_, SizeIs(2));
  EXPECT_TRUE(asked_[0].request.spec().objective().early().only());
  EXPECT_EQ(asked_[0].user, "ada");
  End("jobs/1", v1::SUCCEEDED);
  // Three targets of the first seed.
  ASSERT_THAT(asked_, SizeIs(5));
  for (int i = 2; i < 5; ++i) {
    const v1::JobSpec& spec = asked_[i].request.spec();
    EXPECT_EQ(spec.start_from().checkpoint(), "jobs/1/checkpoints/100");
    EXPECT_EQ(spec.training().seed(), 1u);
    EXPECT_FALSE(spec.objective().early().only());
  }
  End("jobs/2", v1::SUCCEEDED);
  ASSERT_THAT(asked_, SizeIs(8));
  for (int i = 3; i <= 8; ++i) End(absl::StrCat("jobs/", i), v1::SUCCEEDED);
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MET);
  EXPECT_EQ(sweep().counts().succeeded(), 6);
}

TEST_F(SweepEngineTest, WithoutSharingEveryRunIsAWholeJob) {
  v1::SweepSpec spec = Grid(3, 1);
  spec.set_share_early_stage(false);
  Create(spec);
  EXPECT_EQ(sweep().stages_size(), 0);
  ASSERT_THAT(asked_, SizeIs(3));
  EXPECT_FALSE(asked_[0].request.spec().has_start_from());
}

TEST_F(SweepEngineTest, AFailedRunDoesNotEndTheSweep) {
  Create(Grid(1, 3));
  End("jobs/1", v1::FAILED);
  EXPECT_EQ(sweep().state(), v1::Sweep::ACTIVE);
  End("jobs/2", v1::SUCCEEDED, v1::TARGET_MISSED);
  End("jobs/3", v1::SUCCEEDED);
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_EQ(sweep().outcome(), v1::TARGET_MISSED);
  EXPECT_THAT(sweep().reason(), HasSubstr("2 of 3 runs succeeded, 1 failed"));
  EXPECT_EQ(sweep().runs(0).reason(), "the job's reason");
}

TEST_F(SweepEngineTest, AFailedEarlyStageFailsItsRunsAlone) {
  Create(Grid(2, 2));
  End("jobs/1", v1::FAILED);
  EXPECT_EQ(sweep().runs(0).state(), v1::SWEEP_RUN_FAILED);
  EXPECT_THAT(sweep().runs(1).reason(), HasSubstr("the early stage failed"));
  EXPECT_EQ(sweep().runs(2).state(), v1::SWEEP_RUN_WAITING);
  End("jobs/2", v1::SUCCEEDED);
  End("jobs/3", v1::FAILED);
  End("jobs/4", v1::FAILED);
  EXPECT_EQ(sweep().state(), v1::Sweep::FAILED);
}

TEST_F(SweepEngineTest, AtMostMaxParallelJobsAreOut) {
  v1::SweepSpec spec = Grid(2, 3);
  spec.set_max_parallel(2);
  Create(spec);
  EXPECT_THAT(asked_, SizeIs(2));
  size_t ended = 0;
  while (sweep().state() == v1::Sweep::ACTIVE) {
    ASSERT_LE(asked_.size(), ended + 2);
    ASSERT_GT(asked_.size(), ended);
    End(absl::StrCat("jobs/", ++ended), v1::SUCCEEDED);
  }
  EXPECT_EQ(ended, 9u);  // three early stages, six runs
}

TEST_F(SweepEngineTest, CancelReachesEveryJobAndEndsWithTheLast) {
  v1::SweepSpec spec = Grid(1, 4);
  spec.set_max_parallel(2);
  Create(spec);
  SweepEffects effects;
  ASSERT_OK(engine_->Cancel(name_, "enough", now_, &effects));
  Take(std::move(effects));
  EXPECT_THAT(cancelled_, ElementsAre("jobs/1", "jobs/2"));
  EXPECT_EQ(sweep().state(), v1::Sweep::CANCELLING);
  EXPECT_EQ(sweep().counts().cancelled(), 2);
  Tick();
  EXPECT_THAT(cancelled_, SizeIs(2));
  End("jobs/1", v1::CANCELLED);
  End("jobs/2", v1::SUCCEEDED);
  EXPECT_EQ(sweep().state(), v1::Sweep::CANCELLED);
  EXPECT_THAT(asked_, SizeIs(2));
}

TEST_F(SweepEngineTest, AJobThatIsJustBeingCreatedIsCancelledToo) {
  answering_ = false;
  Create(Grid(1, 1));
  SweepEffects effects;
  ASSERT_OK(engine_->Cancel(name_, "", now_, &effects));
  Take(std::move(effects));
  EXPECT_EQ(sweep().state(), v1::Sweep::CANCELLING);
  Answer(asked_[0]);
  EXPECT_THAT(cancelled_, ElementsAre("jobs/1"));
  End("jobs/1", v1::CANCELLED);
  EXPECT_EQ(sweep().state(), v1::Sweep::CANCELLED);
}

TEST_F(SweepEngineTest, ARestartBetweenAskingAndAnswerCreatesOnce) {
  answering_ = false;
  Create(Grid(2, 1));
  ASSERT_THAT(asked_, SizeIs(1));
  // The coordinator created it; the answer was lost.
  by_request_[asked_[0].request.request_id()] = "jobs/1";
  jobs_["jobs/1"].set_name("jobs/1");
  jobs_["jobs/1"].set_state(v1::RUNNING);
  *jobs_["jobs/1"].mutable_spec() = asked_[0].request.spec();
  Restart();
  answering_ = true;
  Tick();
  ASSERT_THAT(asked_, SizeIs(2));
  EXPECT_EQ(asked_[1].request.SerializeAsString(),
            asked_[0].request.SerializeAsString());
  EXPECT_EQ(sweep().stages(0).job(), "jobs/1");
  EXPECT_THAT(by_request_, SizeIs(1));
}

TEST_F(SweepEngineTest, ARestartKeepsFrontRunsAndPlaces) {
  Create(Grid(2, 1));
  End("jobs/1", v1::SUCCEEDED);
  Point("jobs/2", 2.5, 1000);
  Point("jobs/3", 2.0, 2000);
  const int64_t known = *engine_->JobSequence("jobs/2");
  Tick(absl::Seconds(30));
  const v1::Sweep before = sweep();
  const int64_t last = engine_->LastSequence(name_);
  Restart();
  EXPECT_EQ(sweep().front().SerializeAsString(),
            before.front().SerializeAsString());
  EXPECT_EQ(*engine_->JobSequence("jobs/2"), known);
  // A reader's old place is never taken for a new one.
  EXPECT_GT(engine_->LastSequence(name_), last);
  EXPECT_EQ(engine_->EventsAfter(name_, last), std::nullopt);
  Point("jobs/2", 1.0, 500);
  EXPECT_THAT(sweep().front().points(), SizeIs(1));
  End("jobs/2", v1::SUCCEEDED);
  End("jobs/3", v1::SUCCEEDED);
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
}

TEST_F(SweepEngineTest, Complaint20_TheFrontIsOverAllRunsWithItsHypervolume) {
  Create(Grid(1, 3));
  v1::JobEvent info;
  info.mutable_run_info()->set_baseline_loss(4);
  info.mutable_run_info()->set_dense_parameters(10000);
  Event("jobs/1", info);
  Point("jobs/1", 3, 5000);
  Point("jobs/2", 2, 8000);
  Point("jobs/2", 3.5, 6000);  // beaten by run 0
  Point("jobs/3", 3.5, 1000);
  Tick();
  const v1::SweepFront& front = sweep().front();
  ASSERT_EQ(front.points_size(), 3);
  EXPECT_EQ(front.points(0).run(), 2);
  EXPECT_EQ(front.points(1).run(), 0);
  EXPECT_EQ(front.points(2).run(), 1);
  EXPECT_EQ(front.points(2).job(), "jobs/2");
  EXPECT_DOUBLE_EQ(front.hypervolume(), 0.5 * 4000 + 1 * 3000 + 2 * 2000);
  EXPECT_DOUBLE_EQ(front.hypervolume_ratio(), 9000.0 / 40000);
  const auto events = engine_->EventsAfter(name_, 0);
  ASSERT_TRUE(events.has_value());
  EXPECT_TRUE(std::any_of(
      events->begin(), events->end(),
      [](const v1::SweepEvent& event) { return event.has_front(); }));
}

TEST_F(SweepEngineTest, DominatedRunsAreStoppedAfterThreeStrikesIfAsked) {
  for (bool asked : {false, true}) {
    SCOPED_TRACE(asked);
    v1::SweepSpec spec = Grid(1, 2);
    spec.set_stop_dominated(asked);
    Create(spec);
    const std::string good = sweep().runs(0).job();
    const std::string bad = sweep().runs(1).job();
    Point(good, 1.0, 500);
    Point(bad, 3.0, 1000);
    cancelled_.clear();
    for (int i = 0; i < 6; ++i) {
      v1::JobProgress& progress = *jobs_[bad].mutable_progress();
      progress.set_step(100 + 5 * i);
      progress.set_total_steps(150);
      progress.set_size_parameters(1000);
      progress.set_target_size_parameters(1000);
      v1::JobEvent event;
      event.mutable_metrics()->set_step(progress.step());
      event.mutable_metrics()->set_validation_loss(3.0);
      event.mutable_metrics()->set_size_parameters(1000);
      Event(bad, event);
      // The fourth validation is the first strike.
      if (i < 5) {
        EXPECT_THAT(cancelled_, IsEmpty()) << i;
      }
    }
    if (!asked) {
      EXPECT_THAT(cancelled_, IsEmpty());
      continue;
    }
    EXPECT_THAT(cancelled_, ElementsAre(bad));
    End(bad, v1::CANCELLED);
    EXPECT_EQ(sweep().runs(1).state(), v1::SWEEP_RUN_STOPPED);
    EXPECT_THAT(sweep().runs(1).reason(), HasSubstr("run 0 has 1 at 500"));
    End(good, v1::SUCCEEDED);
    EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
    EXPECT_EQ(sweep().outcome(), v1::TARGET_MET);
  }
}

TEST_F(SweepEngineTest, HalvingStopsWhatIsBehindAtItsRungAlsoAfterARestart) {
  v1::SweepSpec spec = Grid(1, 3);
  spec.mutable_halving()->set_first_steps(10);
  Create(spec);
  std::vector<std::string> jobs;
  for (const v1::SweepRun& run : sweep().runs()) jobs.push_back(run.job());
  const auto validate = [&](int run, int64_t step, double loss) {
    v1::JobEvent event;
    event.mutable_metrics()->set_step(step);
    event.mutable_metrics()->set_validation_loss(loss);
    Event(jobs[run], event);
  };
  validate(0, 5, 9.0);  // before the first rung
  validate(0, 12, 2.0);
  validate(1, 10, 3.0);
  EXPECT_THAT(cancelled_, IsEmpty());
  // What the first two had there is stored.
  Tick(absl::Minutes(1));
  Restart();
  validate(2, 10, 2.5);
  EXPECT_THAT(cancelled_, ElementsAre(jobs[2]));
  // Its later validations are of the same rung.
  validate(0, 29, 8.0);
  EXPECT_THAT(cancelled_, ElementsAre(jobs[2]));
  // At its last step a run has nothing left to save.
  v1::JobEvent last;
  last.mutable_metrics()->set_step(30);
  last.mutable_metrics()->set_total_steps(30);
  for (const double loss : {1.0, 2.0, 3.0}) {
    last.mutable_metrics()->set_validation_loss(loss);
    Event(jobs[loss < 2.5 ? 0 : 1], last);
  }
  EXPECT_THAT(cancelled_, ElementsAre(jobs[2]));
  End(jobs[2], v1::CANCELLED);
  EXPECT_EQ(sweep().runs(2).state(), v1::SWEEP_RUN_STOPPED);
  EXPECT_THAT(sweep().runs(2).reason(), HasSubstr("behind at step 10"));
  EXPECT_EQ(sweep().spec().halving().factor(), 3);
}

TEST_F(SweepEngineTest, ARequestIdGivesTheSameSweep) {
  v1::CreateSweepRequest request;
  *request.mutable_spec() = Grid(1, 2);
  request.set_request_id("mine");
  SweepEffects effects;
  const auto first = Ask(request, "ada", &effects);
  const auto again = Ask(request, "ada", &effects);
  ASSERT_OK(first);
  ASSERT_OK(again);
  EXPECT_EQ(first->name(), again->name());
  EXPECT_THAT(effects.create, SizeIs(2));
  EXPECT_THAT(Ask(request, "bob", &effects),
              StatusIs(absl::StatusCode::kInvalidArgument));
  request.mutable_spec()->mutable_grid()->add_seeds(9);
  EXPECT_THAT(Ask(request, "ada", &effects),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SweepEngineTest, AFullQueueIsAskedAgainAndABadRunFails) {
  answering_ = false;
  Create(Grid(1, 2));
  SweepEffects effects;
  engine_->Created(asked_[0].child, absl::ResourceExhaustedError("full"), now_,
                   &effects);
  engine_->Created(asked_[1].child, absl::InvalidArgumentError("no data"), now_,
                   &effects);
  Take(std::move(effects));
  EXPECT_EQ(sweep().runs(1).state(), v1::SWEEP_RUN_FAILED);
  EXPECT_EQ(sweep().runs(1).reason(), "no data");
  Tick();
  EXPECT_THAT(asked_, SizeIs(2));
  Tick(absl::Seconds(10));
  EXPECT_THAT(asked_, SizeIs(3));
}

TEST_F(SweepEngineTest, OnlyEndedSweepsAreDeleted) {
  Create(Grid(1, 1));
  SweepEffects effects;
  EXPECT_THAT(engine_->Delete(name_, &effects),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  End("jobs/1", v1::SUCCEEDED);
  EXPECT_OK(engine_->Delete(name_, &effects));
  Take(std::move(effects));
  EXPECT_EQ(engine_->Find(name_), nullptr);
  EXPECT_THAT(stored_, IsEmpty());
}

TEST_F(SweepEngineTest, OldEndedSweepsAreForgotten) {
  options_.keep_ended = absl::Hours(24);
  Restart();
  Create(Grid(1, 1));
  const std::string ended = name_;
  End("jobs/1", v1::SUCCEEDED);
  Create(Grid(1, 1));
  const std::string active = name_;
  Tick(absl::Hours(23));
  EXPECT_NE(engine_->Find(ended), nullptr);
  Tick(absl::Hours(2));
  EXPECT_EQ(engine_->Find(ended), nullptr);
  EXPECT_EQ(stored_.count(ended), 0u);
  // However old.
  Tick(absl::Hours(1000));
  EXPECT_NE(engine_->Find(active), nullptr);
}

TEST_F(SweepEngineTest, AJobThatIsGoneFailsItsRun) {
  Create(Grid(1, 1));
  SweepEffects effects;
  engine_->CaughtUp("jobs/1", nullptr, 0, now_, &effects);
  EXPECT_EQ(sweep().state(), v1::Sweep::FAILED);
}

TEST_F(SweepEngineTest, ListsNewestFirstWithoutRuns) {
  Create(Grid(1, 1));
  const std::string first = name_;
  Create(Grid(1, 2));
  const SweepPage list = engine_->List(0, 1, kAnySize, ShowAll);
  ASSERT_THAT(list.sweeps, SizeIs(1));
  EXPECT_EQ(list.sweeps[0].name(), name_);
  EXPECT_EQ(list.sweeps[0].runs_size(), 0);
  EXPECT_EQ(list.sweeps[0].counts().runs(), 2);
  const SweepPage rest = engine_->List(list.next, 1, kAnySize, ShowAll);
  ASSERT_THAT(rest.sweeps, SizeIs(1));
  EXPECT_EQ(rest.sweeps[0].name(), first);
  EXPECT_EQ(rest.next, 0);
}

TEST_F(SweepEngineTest, ListsShowAllButRunsStagesAndPoints) {
  Create(Grid(2, 1));
  End("jobs/1", v1::SUCCEEDED);
  Point("jobs/2", 3, 9000);
  End("jobs/2", v1::SUCCEEDED);
  End("jobs/3", v1::SUCCEEDED);
  v1::Sweep expected = sweep();
  ASSERT_EQ(expected.state(), v1::Sweep::SUCCEEDED);
  ASSERT_GT(expected.front().points_size(), 0);
  expected.clear_runs();
  expected.clear_stages();
  expected.mutable_front()->clear_points();
  const SweepPage list = engine_->List(0, 10, kAnySize, ShowAll);
  ASSERT_THAT(list.sweeps, SizeIs(1));
  EXPECT_EQ(list.sweeps[0].DebugString(), expected.DebugString());
}

TEST_F(SweepEngineTest, APageOfLargeSweepsEndsEarly) {
  Create(Grid(1, 1));
  Create(Grid(1, 1));
  Create(Grid(1, 1));
  const size_t one =
      engine_->List(0, 1, kAnySize, ShowAll).sweeps[0].ByteSizeLong();
  SweepPage page = engine_->List(0, 10, 5 * one / 2, ShowAll);
  EXPECT_THAT(page.sweeps, SizeIs(2));
  ASSERT_NE(page.next, 0);
  page = engine_->List(page.next, 10, 5 * one / 2, ShowAll);
  EXPECT_THAT(page.sweeps, SizeIs(1));
  EXPECT_EQ(page.next, 0);
  // However large a sweep is, a page has one.
  EXPECT_THAT(engine_->List(0, 10, 1, ShowAll).sweeps, SizeIs(1));
}

TEST_F(SweepEngineTest, ListsHoldWhatIsVisibleOnly) {
  Create(Grid(1, 1));
  const std::string seen = name_;
  Create(Grid(1, 1));
  const auto visible = [&](const v1::Sweep& sweep) {
    return sweep.name() == seen;
  };
  const SweepPage page = engine_->List(0, 1, kAnySize, visible);
  ASSERT_THAT(page.sweeps, SizeIs(1));
  EXPECT_EQ(page.sweeps[0].name(), seen);
  EXPECT_EQ(page.next, 0);
}

// The plan holds a second copy of the specification.
TEST_F(SweepEngineTest, NoPlanOutlivesItsSweep) {
  std::vector<std::weak_ptr<const v1::SweepSpec>> plans;
  const auto create = [&] {
    v1::CreateSweepRequest request;
    *request.mutable_spec() = Grid(1, 1);
    std::vector<FieldViolation> violations;
    PlannedSweep planned = PlanNewSweep(request.spec(), context_, &violations);
    plans.push_back(planned.plan.source);
    SweepEffects effects;
    const auto made =
        engine_->Create(request, std::move(planned), "ada", now_, &effects);
    ASSERT_OK(made);
    name_ = made->name();
    Take(std::move(effects));
  };
  create();
  EXPECT_FALSE(plans[0].expired());
  End("jobs/1", v1::SUCCEEDED);
  EXPECT_EQ(sweep().state(), v1::Sweep::SUCCEEDED);
  EXPECT_TRUE(plans[0].expired());
  create();
  SweepEffects effects;
  ASSERT_OK(engine_->Cancel(name_, "", now_, &effects));
  Take(std::move(effects));
  EXPECT_FALSE(plans[1].expired());
  End("jobs/2", v1::CANCELLED);
  EXPECT_EQ(sweep().state(), v1::Sweep::CANCELLED);
  EXPECT_TRUE(plans[1].expired());
}

TEST_F(SweepEngineTest, AUserHasSoManySweeps) {
  v1::CreateSweepRequest request;
  *request.mutable_spec() = Grid(1, 1);
  SweepEffects effects;
  const SweepQuota quota = {3, 2};
  ASSERT_OK(Ask(request, "eve", &effects, quota));
  ASSERT_OK(Ask(request, "eve", &effects, quota));
  Take(std::move(effects));
  effects = SweepEffects();
  EXPECT_THAT(Ask(request, "eve", &effects, quota),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::HasSubstr("eve has 2 sweeps under way; the "
                                          "limit for a user is 2 "
                                          "(--user_active_sweeps")));
  EXPECT_OK(Ask(request, "ada", &effects, quota));
  End("jobs/1", v1::SUCCEEDED);
  EXPECT_OK(Ask(request, "eve", &effects, quota));
  Take(std::move(effects));
  effects = SweepEffects();
  End("jobs/2", v1::SUCCEEDED);
  EXPECT_THAT(Ask(request, "eve", &effects, quota),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::HasSubstr("--user_sweeps")));
}

// A queue without room is asked for one job in five seconds, not for hundreds,
// and each job that it takes doubles what it is asked for.
TEST_F(SweepEngineTest, AFullQueueIsAskedForOneJobAtATime) {
  answering_ = false;
  Create(Grid(1, 10));
  ASSERT_THAT(asked_, SizeIs(10));
  const auto answer = [&](size_t first, bool room) {
    const std::vector<SweepEffects::Create> asked(asked_.begin() + first,
                                                  asked_.end());
    for (const auto& create : asked) {
      if (room) {
        Answer(create);
        continue;
      }
      SweepEffects effects;
      engine_->Created(create.child,
                       absl::ResourceExhaustedError("the queue is full"), now_,
                       &effects);
      Take(std::move(effects));
    }
  };
  answer(0, false);
  EXPECT_EQ(sweep().runs(3).reason(), "the queue is full");
  Tick(absl::Seconds(1));
  ASSERT_THAT(asked_, SizeIs(10));
  Tick(absl::Seconds(5));
  ASSERT_THAT(asked_, SizeIs(11));
  answer(10, false);
  Tick(absl::Seconds(6));
  ASSERT_THAT(asked_, SizeIs(12));
  answer(11, true);
  EXPECT_EQ(sweep().runs(0).reason(), "");
  ASSERT_THAT(asked_, SizeIs(14));
  answer(12, true);
  // Four after the first of them, and after the second the three that are left.
  EXPECT_THAT(asked_, SizeIs(21));
}

// A version that plans a stored sweep in another way must not read past its
// plan.
TEST_F(SweepEngineTest, ASweepThatIsPlannedInAnotherWayFails) {
  Create(Grid(2, 1));
  SweepRecord& record = stored_.at(name_);
  record.mutable_sweep()->mutable_spec()->mutable_grid()->clear_targets();
  Restart();
  EXPECT_EQ(sweep().state(), v1::Sweep::FAILED);
  EXPECT_THAT(sweep().reason(), testing::HasSubstr("not the 2"));
  Tick();
}

}  // namespace
}  // namespace comera::server
