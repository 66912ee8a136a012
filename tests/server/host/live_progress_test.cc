// What people grep logs for elsewhere comes through the API.
#include <chrono>

#include "gmock/gmock.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

class LiveProgressTest : public ServerFixture {};

TEST_F(LiveProgressTest, Complaint11_ProgressEtaAndMetricsComeLive) {
  const std::string name = Create(TestSpec(1)).name();
  Worker worker{"w1"};
  RunAll(worker);
  // A watcher that is there before anything is reported.
  auto context = Context();
  v1::WatchJobRequest request;
  request.set_name(name);
  auto reader = training_->WatchJob(context.get(), request);
  v1::WatchJobResponse item;
  ASSERT_TRUE(reader->Read(&item));
  ASSERT_TRUE(item.has_job());
  EXPECT_EQ(item.job().progress().step(), 0);

  for (int64_t step = 10; step <= 30; step += 10) {
    v1::ProgressReport report;
    report.set_job(name);
    report.set_attempt(1);
    report.set_number(step / 10);
    v1::StepMetrics& metrics = *report.mutable_event()->mutable_metrics();
    metrics.set_step(step);
    metrics.set_total_steps(100);
    metrics.set_stage(v1::EARLY);
    metrics.set_smoothed_loss(5.0 - 0.1 * step);
    metrics.set_size_parameters(1000 - step);
    metrics.set_samples_per_second(64);
    metrics.mutable_eta()->set_seconds(100 - step);
    worker.reports = {report};
    Sync(worker);
    // Before the next report is sent: it arrives as it happens.
    do {
      ASSERT_TRUE(reader->Read(&item));
    } while (!item.event().has_metrics());
    EXPECT_EQ(item.event().metrics().step(), step);
    EXPECT_EQ(item.event().metrics().eta().seconds(), 100 - step);
    // And whoever asks is told the same.
    const v1::JobProgress progress = Get(name).progress();
    EXPECT_EQ(progress.step(), step);
    EXPECT_EQ(progress.total_steps(), 100);
    EXPECT_EQ(progress.stage(), v1::EARLY);
    EXPECT_DOUBLE_EQ(progress.loss(), 5.0 - 0.1 * step);
    EXPECT_EQ(progress.size_parameters(), 1000 - step);
    EXPECT_EQ(progress.samples_per_second(), 64);
    EXPECT_EQ(progress.eta().seconds(), 100 - step);
  }
  context->TryCancel();
  reader->Finish();
}

}  // namespace
}  // namespace comera::server
