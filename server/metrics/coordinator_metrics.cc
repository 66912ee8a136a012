// Registers and updates the coordinator's Prometheus metrics.
#include "server/metrics/coordinator_metrics.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/metrics/process_metrics.h"
#include "google/protobuf/descriptor.h"
#include "prometheus/text_serializer.h"
#include "server/metrics/buckets.h"

namespace comera::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

Family<Counter>& Counters(Registry& registry, const char* name,
                          const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Gauge>& Gauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

Family<Histogram>& Histograms(Registry& registry, const char* name,
                              const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

bool IsFinalState(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics()
    : accepted_(Counters(registry_, "comera_jobs_accepted_total",
                         "Jobs accepted, by queue.")),
      finished_(Counters(registry_, "comera_jobs_finished_total",
                         "Jobs that ended, by queue, state and outcome.")),
      failures_(Counters(registry_, "comera_job_failures_total",
                         "Jobs that failed for good, by failure class.")),
      incidents_(Counters(registry_, "comera_job_incidents_total",
                          "Attempts that were lost and other failures that "
                          "jobs survived, by failure class.")),
      restarts_(Counters(registry_, "comera_job_restarts_total",
                         "Attempts after a job's first.")
                    .Add({})),
      preemptions_(Counters(registry_, "comera_job_preemptions_total",
                            "Gangs that gave up their slots for other jobs.")
                       .Add({})),
      events_(Counters(registry_, "comera_events_total",
                       "Job events made durable, by kind.")),
      queue_wait_(Histograms(registry_, "comera_job_queue_wait_seconds",
                             "From being queued to being placed, by queue.")),
      pass_(Histograms(registry_, "comera_schedule_pass_seconds",
                       "Duration of a scheduling pass.")
                .Add({}, PassBuckets())),
      commit_(Histograms(registry_, "comera_store_commit_seconds",
                         "Duration of a durable commit of the store.")
                  .Add({}, CallBuckets())),
      batch_(Histograms(registry_, "comera_store_commit_writes",
                        "Writes that one commit of the store made durable.")
                 .Add({}, Histogram::BucketBoundaries{1, 2, 5, 10, 25, 50, 100,
                                                      250, 1000})),
      commit_failures_(Counters(registry_, "comera_store_failures_total",
                                "Commits of the store that failed; the "
                                "coordinator then starts anew.")
                           .Add({})),
      store_bytes_(
          Gauges(registry_, "comera_store_bytes", "Size of the job store.")),
      workers_(Gauges(registry_, "comera_workers",
                      "Workers by service state; LOST: not connected.")),
      slots_(Gauges(registry_, "comera_slots",
                    "Slots of connected workers, by kind of device.")),
      busy_slots_(Gauges(registry_, "comera_slots_busy",
                         "Slots that have a member, by kind of device.")),
      unfit_slots_(Gauges(registry_, "comera_slots_unfit",
                          "Slots that cannot take a member, by kind of "
                          "device.")),
      mass_silence_(Gauges(registry_, "comera_mass_silence",
                           "1 while most workers are silent together, so that "
                           "none of them is given up.")
                        .Add({})),
      leader_(Gauges(registry_, "comera_leader",
                     "1: this coordinator leads; 0: it only shows jobs.")
                  .Add({})),
      leader_term_(Gauges(registry_, "comera_leader_epoch",
                          "Number of the leadership it has; 0: none, or "
                          "there is one coordinator only.")
                       .Add({})) {
  const auto* kinds = v1::JobEvent::descriptor()->FindOneofByName("event");
  for (int i = 0; i < kinds->field_count(); ++i) {
    const auto* kind = kinds->field(i);
    const auto number = static_cast<size_t>(kind->number());
    event_kinds_.resize(std::max(event_kinds_.size(), number + 1));
    event_kinds_[number] = &events_.Add({{"kind", kind->name()}});
  }
  // Alerts look at how these rise, from the beginning on.
  const auto* classes = v1::FailureClass_descriptor();
  for (int i = 1; i < classes->value_count(); ++i) {
    failures_.Add({{"class", classes->value(i)->name()}});
    incidents_.Add({{"class", classes->value(i)->name()}});
  }
}

std::string CoordinatorMetrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  const auto add = [&families](std::vector<prometheus::MetricFamily> more) {
    std::move(more.begin(), more.end(), std::back_inserter(families));
  };
  add(CollectWaits());
  add(CollectProcessMetrics());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Collector& collector : collectors_) add(collector());
  }
  return prometheus::TextSerializer().Serialize(families);
}

void CoordinatorMetrics::AddCollector(Collector collector) {
  std::lock_guard<std::mutex> lock(mutex_);
  collectors_.push_back(std::move(collector));
}

void CoordinatorMetrics::ClearCollectors() {
  std::lock_guard<std::mutex> lock(mutex_);
  collectors_.clear();
}

void CoordinatorMetrics::OnLoaded(const v1::Job& job) {
  if (job.state() != v1::QUEUED) return;
  waits_.Begin(job.name(), job.spec().queue(), ToTime(job.create_time()));
}

void CoordinatorMetrics::OnEvent(const v1::JobEvent& event,
                                 const v1::Job* job) {
  const auto kind = static_cast<size_t>(event.event_case());
  if (kind < event_kinds_.size() && event_kinds_[kind] != nullptr) {
    event_kinds_[kind]->Increment();
  }
  if (event.has_incident()) {
    const v1::FailureClass failure_class = event.incident().failure_class();
    incidents_.Add({{"class", v1::FailureClass_Name(failure_class)}})
        .Increment();
    if (failure_class == v1::PREEMPTED) preemptions_.Increment();
  }
  if (event.has_state_change() && job != nullptr) OnState(event, *job);
}

void CoordinatorMetrics::OnState(const v1::JobEvent& event,
                                 const v1::Job& job) {
  const v1::StateChange& change = event.state_change();
  const absl::Time time = ToTime(event.time());
  const std::string& queue = job.spec().queue();
  if (change.state() == v1::QUEUED) {
    // Its first event of all.
    if (event.sequence() == 1) accepted_.Add({{"queue", queue}}).Increment();
    waits_.Begin(job.name(), queue, time);
    return;
  }
  const auto since = waits_.End(job.name());
  if (change.state() == v1::STARTING) {
    if (since) {
      queue_wait_.Add({{"queue", queue}}, WaitBuckets())
          .Observe(std::max(0.0, absl::ToDoubleSeconds(time - *since)));
    }
    if (event.attempt() > 1) restarts_.Increment();
  }
  if (!IsFinalState(change.state())) return;
  finished_
      .Add({{"queue", queue},
            {"state", v1::JobState_Name(change.state())},
            {"outcome", change.outcome() == v1::OUTCOME_UNSPECIFIED
                            ? ""
                            : v1::Outcome_Name(change.outcome())}})
      .Increment();
  if (change.state() == v1::FAILED) {
    failures_
        .Add({{"class",
               v1::FailureClass_Name(change.failure().failure_class())}})
        .Increment();
  }
}

void CoordinatorMetrics::OnSchedulePass(absl::Duration took) {
  pass_.Observe(absl::ToDoubleSeconds(took));
}

void CoordinatorMetrics::OnCommit(absl::Duration took, size_t writes, bool ok) {
  commit_.Observe(absl::ToDoubleSeconds(took));
  batch_.Observe(static_cast<double>(writes));
  if (!ok) commit_failures_.Increment();
}

void CoordinatorMetrics::SetStoreBytes(int64_t bytes) {
  store_bytes_.Add({}).Set(static_cast<double>(bytes));
}

void CoordinatorMetrics::SetCluster(const ClusterCounts& counts) {
  mass_silence_.Set(counts.mass_silence ? 1 : 0);
  for (const auto& [service, number] : counts.workers) {
    workers_.Add({{"service", service}}).Set(static_cast<double>(number));
  }
  for (const auto& [device, slots] : counts.slots) {
    const prometheus::Labels labels = {{"device", device}};
    slots_.Add(labels).Set(static_cast<double>(slots.total));
    busy_slots_.Add(labels).Set(static_cast<double>(slots.busy));
    unfit_slots_.Add(labels).Set(static_cast<double>(slots.unfit));
  }
}

void CoordinatorMetrics::SetLeader(bool leads, int64_t term) {
  leader_.Set(leads ? 1 : 0);
  leader_term_.Set(static_cast<double>(term));
}

std::vector<prometheus::MetricFamily> CoordinatorMetrics::CollectWaits() const {
  prometheus::MetricFamily family;
  family.name = "comera_queue_oldest_wait_seconds";
  family.help = "For how long the job waits that has waited longest, by queue.";
  family.type = prometheus::MetricType::Gauge;
  const absl::Time now = absl::Now();
  for (const auto& [queue, since] : waits_.Oldest()) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({"queue", queue});
    metric.gauge.value = std::max(0.0, absl::ToDoubleSeconds(now - since));
  }
  if (family.metric.empty()) return {};
  return {family};
}

}  // namespace comera::server
