// Tests that decisions of the scheduler are carried out.
#include "server/coordinator/schedule/gang_scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "server/coordinator/queue/queue_directory.h"
#include "server/coordinator/schedule/job_explainer.h"
#include "tests/server/coordinator/coordinator_parts.h"
#include "tests/server/test_spec.h"

namespace comera::server {
namespace {

class GangSchedulerTest : public ::testing::Test {
 protected:
  void Run() {
    Operation op(parts_.now, &parts_.effects);
    scheduler_.Run(&op);
  }

  CoordinatorParts parts_;
  GangScheduler scheduler_{
      &parts_.options,
      {&parts_.jobs, &parts_.workers, &parts_.queues, &parts_.starts},
      &parts_.lifecycle};
};

TEST_F(GangSchedulerTest, PlacesAQueuedGang) {
  parts_.AddWorker("w1");
  const JobEntry& entry = parts_.AddJob("a");
  Run();
  EXPECT_EQ(entry.state(), v1::STARTING);
  EXPECT_EQ(entry.attempt().CountMembersOn("w1"), 2);
  EXPECT_FALSE(scheduler_.needed());
}

TEST_F(GangSchedulerTest, ShowsWhyAJobWaitsWithoutStoringIt) {
  parts_.AddWorker("w1", 1);
  const JobEntry& entry = parts_.AddJob("a");
  Run();
  EXPECT_EQ(entry.job().reason(), "waiting for 2 CPU slots, the cluster has 1");
  EXPECT_EQ(parts_.effects.views.count("jobs/a"), 1);
  parts_.effects = Effects();
  Run();
  EXPECT_EQ(parts_.effects.views.count("jobs/a"), 0);
}

TEST_F(GangSchedulerTest, AJobThatWasToPauseDoesNotStart) {
  parts_.AddWorker("w1");
  JobEntry& entry = parts_.AddJob("a");
  entry.mutable_job().set_pausing(true);
  Run();
  EXPECT_EQ(entry.state(), v1::PAUSED);
}

TEST_F(GangSchedulerTest, TimeAloneIsAReasonWhileJobsWait) {
  Run();
  scheduler_.RequestByTime();
  EXPECT_FALSE(scheduler_.needed());
  parts_.AddJob("a");
  scheduler_.RequestByTime();
  EXPECT_TRUE(scheduler_.needed());
}

TEST_F(GangSchedulerTest, ExplainsWhatAJobWaitsForAndForecastsTheNext) {
  parts_.AddWorker("w1");
  const JobEntry& first = parts_.AddJob("a");
  const JobEntry& second = parts_.AddJob("b");
  Run();
  const QueueDirectory queues(&parts_.jobs, &parts_.queues);
  const JobExplainer explainer(&parts_.jobs, &queues, &scheduler_);
  const v1::JobExplanation running = explainer.Explain(first, parts_.now);
  EXPECT_EQ(running.workers(0), "w1");
  EXPECT_EQ(running.queue_processes(), 2);
  const v1::JobExplanation waiting = explainer.Explain(second, parts_.now);
  EXPECT_EQ(waiting.position(), 1);
  EXPECT_EQ(waiting.blocked_by(), "waiting for 2 free CPU slots, 0 free");
  const v1::Forecast forecast =
      explainer.Forecast(WithDefaults(TestSpec(2)), "", parts_.now);
  EXPECT_EQ(forecast.processes_now(), 0);
  EXPECT_EQ(forecast.position(), 1);
}

}  // namespace
}  // namespace comera::server
