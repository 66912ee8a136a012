// Where a job stands.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/coordinator.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxSmaller = 6;
constexpr int kMaxWorkers = 64;

}  // namespace

absl::StatusOr<v1::JobExplanation> Coordinator::Explain(const std::string& name,
                                                        absl::Time now) const {
  const JobEntry* entry = jobs_.Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no job ", name));
  }
  const v1::Job& job = entry->job();
  v1::JobExplanation explanation;
  if (job.state() == v1::QUEUED) explanation = ExplainQueued(*entry, now);
  explanation.set_name(name);
  explanation.set_state(job.state());
  explanation.set_reason(job.reason());
  explanation.set_queue(entry->demand.queue);
  explanation.set_priority(entry->demand.priority);
  explanation.set_max_processes(entry->demand.ranks);
  explanation.set_min_processes(entry->demand.sizes.empty()
                                    ? entry->demand.ranks
                                    : entry->demand.sizes.back());
  explanation.set_preemptions(entry->record.preemptions());
  const Attempt& attempt = entry->record.attempt();
  explanation.set_processes(attempt.members_size());
  for (const AttemptMember& rank : attempt.members()) {
    const auto& told = explanation.workers();
    if (told.size() < kMaxWorkers &&
        std::find(told.begin(), told.end(), rank.worker()) == told.end()) {
      explanation.add_workers(rank.worker());
    }
  }
  if (const v1::Queue* queue = queues_.Find(entry->demand.queue)) {
    v1::Queue used = *queue;
    AddUse({&used});
    explanation.set_queue_processes(used.running_processes());
    explanation.set_queue_guaranteed_processes(used.guaranteed_processes());
    explanation.set_queue_max_processes(
        used.borrowing() ? used.max_processes() : used.guaranteed_processes());
  }
  return explanation;
}

v1::JobExplanation Coordinator::ExplainQueued(const JobEntry& entry,
                                              absl::Time now) const {
  const View view = Look(now);
  const auto position =
      std::find(view.jobs.begin(), view.jobs.end(), &entry) - view.jobs.begin();
  const server::Explanation found = Scheduler::Explain(
      view.cluster, static_cast<int32_t>(position),
      SmallerSizes(entry.job().spec(),
                   view.cluster.jobs[position].min_processes(), kMaxSmaller));
  v1::JobExplanation explanation;
  explanation.set_position(found.position);
  for (const server::Explanation::Ahead& other : found.ahead) {
    const JobEntry& ahead = *view.jobs[other.job];
    v1::JobAhead* told = explanation.add_ahead();
    told->set_name(ahead.job().name());
    told->set_queue(ahead.demand.queue);
    told->set_priority(ahead.demand.priority);
    told->set_processes(view.cluster.jobs[other.job].min_processes());
    told->set_why(other.why);
  }
  if (found.processes_now == 0) explanation.set_blocked_by(found.reason.Text());
  if (found.expected_start) {
    *explanation.mutable_expected_start() = ToTimestamp(*found.expected_start);
  }
  for (const server::Explanation::Smaller& smaller : found.smaller) {
    v1::SmallerGang* told = explanation.add_smaller_gangs();
    told->set_processes(smaller.ranks);
    told->set_now(smaller.now);
    if (smaller.expected_start) {
      *told->mutable_expected_start() = ToTimestamp(*smaller.expected_start);
    }
  }
  explanation.set_fit_slots(found.fit_slots);
  explanation.set_free_slots(found.free_slots);
  return explanation;
}

v1::Forecast Coordinator::Foresee(const v1::JobSpec& spec,
                                  const std::string& user,
                                  absl::Time now) const {
  JobEntry entry;
  *entry.job().mutable_spec() = spec;
  entry.job().set_user(user);
  *entry.job().mutable_create_time() = ToTimestamp(now);
  entry.record.set_serial(jobs_.last_serial() + 1);
  entry.demand = DemandOf(spec);
  View view = Look(now);
  const PendingJob pending = ToPending(entry, now, &view);
  view.cluster.jobs.push_back(pending);
  const server::Explanation found = Scheduler::Explain(
      view.cluster, static_cast<int32_t>(view.cluster.jobs.size()) - 1, {});
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
