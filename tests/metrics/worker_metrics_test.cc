// Checks the metrics that a worker exposes to Prometheus.
#include "worker/metrics/worker_metrics.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "worker/metrics/metrics_port.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const WorkerMetrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.Collect());
}

v1::StepMetrics Step(int64_t step) {
  v1::StepMetrics metrics;
  metrics.set_step(step);
  metrics.set_samples_per_second(12.5);
  metrics.set_synchronized_bytes(1000);
  return metrics;
}

TEST(WorkerMetrics, JobsAreLabelsWhileTheyRunHere) {
  WorkerMetrics metrics;
  metrics.OnMemberStarted("jobs/a", 1);
  metrics.OnMemberStarted("jobs/a", 1);
  metrics.OnMemberStarted("jobs/b", 2);
  metrics.OnStep("jobs/a", Step(10));
  metrics.OnStep("jobs/a", Step(15));
  std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("comera_worker_ranks 3\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_rank_starts_total 3\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_rank_restarts_total 1\n"));
  EXPECT_THAT(text,
              HasSubstr("comera_worker_job_step{job_name=\"jobs/a\"} 15\n"));
  // Five steps lie between the reports.
  EXPECT_THAT(text, HasSubstr("comera_worker_synchronized_bytes_total 5000\n"));
  metrics.OnMemberEnded("jobs/a", true);
  EXPECT_THAT(Text(metrics), HasSubstr("jobs/a"));
  metrics.OnMemberEnded("jobs/a", false);
  metrics.OnStep("jobs/a", Step(20));
  text = Text(metrics);
  EXPECT_THAT(text, Not(HasSubstr("jobs/a")));
  EXPECT_THAT(text, HasSubstr("comera_worker_ranks 1\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_rank_failures_total 1\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_synchronized_bytes_total 5000\n"));
}

TEST(WorkerMetrics, EnergyIsThereOnceAJobTellsIt) {
  WorkerMetrics metrics;
  metrics.OnMemberStarted("jobs/a", 1);
  metrics.OnStep("jobs/a", Step(10));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("joules{")));
  v1::StepMetrics step = Step(20);
  step.set_energy_joules(1500);
  metrics.OnStep("jobs/a", step);
  EXPECT_THAT(Text(metrics),
              HasSubstr("comera_worker_job_energy_joules{job_name=\"jobs/a\"} "
                        "1500\n"));
  metrics.OnMemberEnded("jobs/a", false);
  EXPECT_THAT(Text(metrics), Not(HasSubstr("joules{")));
}

TEST(WorkerMetrics, TokensAndUtilisationAreThereOnceAJobTellsThem) {
  WorkerMetrics metrics;
  metrics.OnMemberStarted("jobs/a", 1);
  metrics.OnStep("jobs/a", Step(10));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("tokens_per_second{")));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("flops_ratio{")));
  v1::StepMetrics step = Step(20);
  step.set_tokens_per_second(2500);
  step.set_model_flops_utilisation(0.25);
  metrics.OnStep("jobs/a", step);
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("comera_worker_job_tokens_per_second{job_name="
                              "\"jobs/a\"} 2500\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_job_model_flops_ratio{job_name="
                              "\"jobs/a\"} 0.25\n"));
  metrics.OnMemberEnded("jobs/a", false);
  EXPECT_THAT(Text(metrics), Not(HasSubstr("jobs/a")));
}

TEST(WorkerMetrics, CopiesAndContactAreCounted) {
  WorkerMetrics metrics;
  metrics.OnCheckpointCopy(WorkerMetrics::CopyTarget::kStore, 70, true);
  metrics.OnCheckpointCopy(WorkerMetrics::CopyTarget::kStore, 70, false);
  metrics.OnSynchronize(true);
  std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("comera_worker_checkpoint_copied_bytes_total{"
                              "target=\"store\"} 70\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_checkpoint_copied_bytes_total{"
                              "target=\"replica\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_coordinator_connected 1\n"));
  metrics.OnSynchronize(false);
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("comera_worker_coordinator_connected 0\n"));
  EXPECT_THAT(text, HasSubstr("comera_worker_coordinator_errors_total 1\n"));
}

TEST(GpuFamilies, WhatIsNotKnownIsNotTold) {
  std::vector<GpuWatch::Seen> gpus(2);
  gpus[0].gpu.set_uuid("GPU-a");
  gpus[0].gpu.set_memory_bytes(100);
  gpus[0].reading.emplace();
  gpus[0].reading->used_bytes = 40;
  gpus[0].reading->temperature = 61;
  gpus[0].reading->utilization_percent = 55;
  gpus[0].reading->power_milliwatts = 350500;
  gpus[1].gpu.set_uuid("GPU-b");
  gpus[1].unfit = "cannot be read";
  const std::string text =
      prometheus::TextSerializer().Serialize(GpuFamilies(gpus));
  for (const char* line :
       {"comera_gpu_memory_used_bytes{gpu=\"0\",uuid=\"GPU-a\"} 40\n",
        "comera_gpu_temperature_celsius{gpu=\"0\",uuid=\"GPU-a\"} 61\n",
        "comera_gpu_utilization_ratio{gpu=\"0\",uuid=\"GPU-a\"} 0.55",
        "comera_gpu_power_watts{gpu=\"0\",uuid=\"GPU-a\"} 350.5\n",
        "comera_gpu_unfit{gpu=\"0\",uuid=\"GPU-a\"} 0\n",
        "comera_gpu_unfit{gpu=\"1\",uuid=\"GPU-b\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("ecc")));
  EXPECT_THAT(text, Not(HasSubstr("comera_gpu_memory_used_bytes{gpu=\"1\"")));
}

TEST(MetricsPort, AddressesAreChecked) {
  const auto metrics = std::make_shared<WorkerMetrics>();
  for (const char* bad : {"7401", "localhost:7401", "127.0.0.1:", "[::1:7401",
                          "127.0.0.1:70000", "127.0.0.1:1,0.0.0.0:2", ":80"}) {
    EXPECT_THAT(MetricsPort::Start(bad, metrics),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("metrics_listen")))
        << bad;
  }
  ASSERT_OK_AND_ASSIGN(const auto port,
                       MetricsPort::Start("127.0.0.1:0", metrics));
  EXPECT_THAT(port->address(), Not(HasSubstr(":0")));
  EXPECT_THAT(MetricsPort::Start(port->address(), metrics),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace comera::worker
