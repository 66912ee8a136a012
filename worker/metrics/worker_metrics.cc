// Defines the worker's metric families and counts what happens.

#include "worker/metrics/worker_metrics.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "common/metrics/process_metrics.h"

namespace comera::worker {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Registry;

Family<Counter>& Counters(Registry& registry, const char* name,
                          const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Gauge>& Gauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

double UnixSeconds() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const char* Name(WorkerMetrics::CopyTarget target) {
  return target == WorkerMetrics::CopyTarget::kStore ? "store" : "replica";
}

}  // namespace

WorkerMetrics::WorkerMetrics()
    : ranks_(Gauges(registry_, "comera_worker_ranks",
                    "Gang members that run here.")
                 .Add({})),
      starts_(Counters(registry_, "comera_worker_rank_starts_total",
                       "Gang members started.")
                  .Add({})),
      restarts_(
          Counters(registry_, "comera_worker_rank_restarts_total",
                   "Gang members started in a job's second or later attempt.")
              .Add({})),
      failed_(Counters(registry_, "comera_worker_rank_failures_total",
                       "Gang members that ended by a signal or with an error.")
                  .Add({})),
      job_step_(Gauges(registry_, "comera_worker_job_step",
                       "Last step of a job whose member 0 runs here.")),
      job_speed_(Gauges(registry_, "comera_worker_job_samples_per_second",
                        "Samples per second of a job whose member 0 runs "
                        "here.")),
      job_tokens_(Gauges(registry_, "comera_worker_job_tokens_per_second",
                         "Tokens per second, without padding, of a job whose "
                         "member 0 runs here.")),
      job_utilisation_(
          Gauges(registry_, "comera_worker_job_model_flops_ratio",
                 "Floating-point operations that the model of a job whose "
                 "member 0 runs here needs, over what its device was measured "
                 "to do.")),
      job_energy_(Gauges(registry_, "comera_worker_job_energy_joules",
                         "Energy that the machines of a job whose member 0 "
                         "runs here have used since it began.")),
      synchronized_bytes_(
          Counters(registry_, "comera_worker_synchronized_bytes_total",
                   "Bytes of gradient that members 0 here gave to all-reduces.")
              .Add({})),
      copies_(Counters(registry_, "comera_worker_checkpoint_copies_total",
                       "Training states copied away from here, by target "
                       "and result.")),
      copied_bytes_(Counters(registry_,
                             "comera_worker_checkpoint_copied_bytes_total",
                             "Bytes of those that arrived, by target.")),
      connected_(Gauges(registry_, "comera_worker_coordinator_connected",
                        "1: the last exchange with the coordinator "
                        "succeeded.")
                     .Add({})),
      last_contact_(
          Gauges(registry_, "comera_worker_coordinator_contact_time_seconds",
                 "When an exchange with the coordinator last succeeded, since "
                 "1970.")
              .Add({})),
      lost_calls_(Counters(registry_, "comera_worker_coordinator_errors_total",
                           "Exchanges with the coordinator that failed.")
                      .Add({})) {
  for (CopyTarget target : {CopyTarget::kReplica, CopyTarget::kStore}) {
    copied_bytes_.Add({{"target", Name(target)}});
    for (const char* result : {"ok", "failed"}) {
      copies_.Add({{"target", Name(target)}, {"result", result}});
    }
  }
}

std::vector<prometheus::MetricFamily> WorkerMetrics::Collect() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  const auto add = [&families](std::vector<prometheus::MetricFamily> more) {
    std::move(more.begin(), more.end(), std::back_inserter(families));
  };
  add(CollectProcessMetrics());
  const std::lock_guard<std::mutex> lock(collectors_mutex_);
  for (const Collector& collector : collectors_) add(collector());
  return families;
}

void WorkerMetrics::AddCollector(Collector collector) {
  const std::lock_guard<std::mutex> lock(collectors_mutex_);
  collectors_.push_back(std::move(collector));
}

void WorkerMetrics::ClearCollectors() {
  const std::lock_guard<std::mutex> lock(collectors_mutex_);
  collectors_.clear();
}

void WorkerMetrics::OnMemberStarted(const std::string& job, int64_t attempt) {
  starts_.Increment();
  if (attempt > 1) restarts_.Increment();
  ranks_.Increment();
  const std::lock_guard<std::mutex> lock(mutex_);
  ++jobs_[job].ranks;
}

void WorkerMetrics::OnMemberEnded(const std::string& job, bool failed) {
  ranks_.Decrement();
  if (failed) failed_.Increment();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end() || --it->second.ranks > 0) return;
  if (it->second.steps != nullptr) job_step_.Remove(it->second.steps);
  if (it->second.speed != nullptr) job_speed_.Remove(it->second.speed);
  if (it->second.energy != nullptr) job_energy_.Remove(it->second.energy);
  if (it->second.tokens != nullptr) job_tokens_.Remove(it->second.tokens);
  if (it->second.utilisation != nullptr) {
    job_utilisation_.Remove(it->second.utilisation);
  }
  jobs_.erase(it);
}

void WorkerMetrics::OnStep(const std::string& job,
                           const v1::StepMetrics& step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = jobs_.find(job);
  // The job's last output, read after its end.
  if (it == jobs_.end()) return;
  Job& one = it->second;
  if (one.steps == nullptr) {
    one.steps = &job_step_.Add({{"job_name", job}});
    one.speed = &job_speed_.Add({{"job_name", job}});
  }
  one.steps->Set(static_cast<double>(step.step()));
  one.speed->Set(step.samples_per_second());
  // What a job may not have.
  const auto set = [&job](Family<Gauge>& family, Gauge** gauge, double value) {
    if (!(value > 0)) return;
    if (*gauge == nullptr) *gauge = &family.Add({{"job_name", job}});
    (*gauge)->Set(value);
  };
  set(job_energy_, &one.energy, step.energy_joules());
  set(job_tokens_, &one.tokens, step.tokens_per_second());
  set(job_utilisation_, &one.utilisation, step.model_flops_utilisation());
  // Each report stands for the steps since the one before.
  if (one.step >= 0 && step.step() > one.step) {
    synchronized_bytes_.Increment(
        static_cast<double>(step.synchronized_bytes()) *
        static_cast<double>(step.step() - one.step));
  }
  one.step = step.step();
}

void WorkerMetrics::OnCheckpointCopy(CopyTarget target, int64_t bytes,
                                     bool ok) {
  copies_.Add({{"target", Name(target)}, {"result", ok ? "ok" : "failed"}})
      .Increment();
  if (!ok) return;
  copied_bytes_.Add({{"target", Name(target)}})
      .Increment(static_cast<double>(bytes));
}

void WorkerMetrics::OnSynchronize(bool ok) {
  connected_.Set(ok ? 1 : 0);
  if (ok) {
    last_contact_.Set(UnixSeconds());
  } else {
    lost_calls_.Increment();
  }
}

std::vector<prometheus::MetricFamily> GpuFamilies(
    const std::vector<GpuWatch::Seen>& gpus) {
  prometheus::MetricFamily memory =
      MakeGauge("comera_gpu_memory_bytes", "Memory of the GPU.", 0);
  prometheus::MetricFamily used = MakeGauge(
      "comera_gpu_memory_used_bytes", "Memory of the GPU that is taken.", 0);
  prometheus::MetricFamily heat =
      MakeGauge("comera_gpu_temperature_celsius", "Temperature of the GPU.", 0);
  prometheus::MetricFamily slowdown =
      MakeGauge("comera_gpu_slowdown_temperature_celsius",
                "Temperature at which the GPU slows down.", 0);
  prometheus::MetricFamily use = MakeGauge(
      "comera_gpu_utilization_ratio",
      "Share of the driver's last sample in which the GPU computed.", 0);
  prometheus::MetricFamily power =
      MakeGauge("comera_gpu_power_watts", "Power that the GPU draws.", 0);
  prometheus::MetricFamily errors = MakeGauge(
      "comera_gpu_uncorrected_ecc_errors",
      "Memory errors that were not corrected, since the driver was loaded.", 0);
  prometheus::MetricFamily unfit =
      MakeGauge("comera_gpu_unfit", "1: the GPU takes no member now.", 0);
  std::vector<prometheus::MetricFamily*> all = {
      &memory, &used, &heat, &slowdown, &use, &power, &errors, &unfit};
  for (prometheus::MetricFamily* family : all) family->metric.clear();
  for (size_t i = 0; i < gpus.size(); ++i) {
    const auto add = [&](prometheus::MetricFamily& family, double value) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"gpu", std::to_string(i)}, {"uuid", gpus[i].gpu.uuid()}};
      metric.gauge.value = value;
    };
    add(unfit, gpus[i].unfit.empty() ? 0 : 1);
    add(memory, static_cast<double>(gpus[i].gpu.memory_bytes()));
    if (!gpus[i].reading.has_value()) continue;
    const GpuReading& reading = *gpus[i].reading;
    add(used, static_cast<double>(reading.used_bytes));
    if (reading.temperature) add(heat, *reading.temperature);
    if (reading.slowdown_temperature) {
      add(slowdown, *reading.slowdown_temperature);
    }
    if (reading.utilization_percent) {
      add(use, 0.01 * *reading.utilization_percent);
    }
    if (reading.power_milliwatts) {
      add(power, 0.001 * static_cast<double>(*reading.power_milliwatts));
    }
    if (reading.uncorrected_ecc) {
      add(errors, static_cast<double>(*reading.uncorrected_ecc));
    }
  }
  std::vector<prometheus::MetricFamily> families;
  for (prometheus::MetricFamily* family : all) {
    if (!family->metric.empty()) families.push_back(std::move(*family));
  }
  return families;
}

}  // namespace comera::worker
