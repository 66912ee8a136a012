// Implements JobExplainer: the scheduler's view of one job in clients' words.
#include "server/coordinator/schedule/job_explainer.h"

#include <algorithm>

#include "proto/resource_names.h"
#include "server/coordinator/schedule/cluster_view.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxSmaller = 6;
constexpr int kMaxWorkers = 64;

void AddWorkers(const Attempt& attempt, v1::JobExplanation* explanation) {
  for (const GangMember& member : attempt.members()) {
    const auto& named = explanation->workers();
    if (named.size() < kMaxWorkers &&
        std::find(named.begin(), named.end(), member.worker()) == named.end()) {
      explanation->add_workers(member.worker());
    }
  }
}

}  // namespace

v1::JobExplanation JobExplainer::Explain(const JobEntry& entry,
                                         absl::Time now) const {
  const JobDemand& demand = entry.demand();
  v1::JobExplanation explanation;
  if (entry.state() == v1::QUEUED) explanation = ExplainQueued(entry, now);
  explanation.set_name(entry.name());
  explanation.set_state(entry.state());
  explanation.set_reason(entry.job().reason());
  explanation.set_queue(demand.queue);
  explanation.set_priority(demand.priority);
  explanation.set_max_processes(demand.processes);
  explanation.set_min_processes(demand.sizes.empty() ? demand.processes
                                                     : demand.sizes.back());
  explanation.set_preemptions(entry.record().preemptions());
  explanation.set_processes(
      static_cast<int32_t>(entry.attempt().members().size()));
  AddWorkers(entry.attempt(), &explanation);
  const auto queue = queues_->Get(QueueName(demand.queue));
  if (queue.ok()) {
    explanation.set_queue_processes(queue->running_processes());
    explanation.set_queue_guaranteed_processes(queue->guaranteed_processes());
    explanation.set_queue_max_processes(queue->borrowing()
                                            ? queue->max_processes()
                                            : queue->guaranteed_processes());
  }
  return explanation;
}

v1::JobExplanation JobExplainer::ExplainQueued(const JobEntry& entry,
                                               absl::Time now) const {
  ClusterView view = scheduler_->View(now);
  int32_t position = view.PositionOf(entry);
  const bool waits = position < 0;
  if (waits) position = view.AddQueued(entry);
  const std::vector<PendingJob>& jobs = view.snapshot().jobs;
  const Explanation found = Scheduler::Explain(
      view.snapshot(), position,
      SmallerSizes(entry.job().spec(), jobs[position].min_processes(),
                   kMaxSmaller));
  v1::JobExplanation explanation;
  explanation.set_position(found.position);
  for (const Explanation::Ahead& other : found.ahead) {
    const JobEntry& ahead = view.queued(other.job);
    v1::JobAhead* shown = explanation.add_ahead();
    shown->set_name(ahead.name());
    shown->set_queue(ahead.demand().queue);
    shown->set_priority(ahead.demand().priority);
    shown->set_processes(jobs[other.job].min_processes());
    shown->set_why(other.why);
  }
  explanation.set_fit_slots(found.fit_slots);
  explanation.set_free_slots(found.free_slots);
  if (waits) {
    // Room is not what it waits for, and nobody knows for how long.
    explanation.set_blocked_by(scheduler_->Start(entry, now).text);
    return explanation;
  }
  if (found.processes_now == 0) explanation.set_blocked_by(found.reason.Text());
  if (found.expected_start) {
    *explanation.mutable_expected_start() = ToTimestamp(*found.expected_start);
  }
  for (const Explanation::Smaller& smaller : found.smaller) {
    v1::SmallerGang* shown = explanation.add_smaller_gangs();
    shown->set_processes(smaller.processes);
    shown->set_now(smaller.now);
    if (smaller.expected_start) {
      *shown->mutable_expected_start() = ToTimestamp(*smaller.expected_start);
    }
  }
  return explanation;
}

v1::Forecast JobExplainer::Forecast(const v1::JobSpec& spec,
                                    const std::string& user,
                                    absl::Time now) const {
  JobRecord record;
  *record.mutable_job()->mutable_spec() = spec;
  record.mutable_job()->set_user(user);
  *record.mutable_job()->mutable_create_time() = ToTimestamp(now);
  record.set_serial(jobs_->last_serial() + 1);
  const JobEntry entry(std::move(record), nullptr);
  ClusterView view = scheduler_->View(now);
  const int32_t position = view.AddQueued(entry);
  const Explanation found = Scheduler::Explain(view.snapshot(), position, {});
  v1::Forecast forecast;
  forecast.set_processes_now(found.processes_now);
  forecast.set_position(found.position - 1);
  if (found.expected_start) {
    *forecast.mutable_expected_start() = ToTimestamp(*found.expected_start);
  }
  if (found.processes_now == 0) forecast.set_blocked_by(found.reason.Text());
  return forecast;
}

}  // namespace comera::server
