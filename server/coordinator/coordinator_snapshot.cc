// What the scheduler is shown.
#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/coordinator.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

bool IsGpu(const WorkerState& worker, int32_t slot) {
  for (const v1::Slot& known : worker.slots) {
    if (known.index() == slot) return known.device() == v1::ResourceSpec::GPU;
  }
  return false;
}

// Whether the slot may not be given to others yet. Those of a gang that makes
// room come free together, so that nobody picks them one by one.
bool HoldsSlot(const Attempt& attempt, const AttemptMember& rank) {
  return !Ended(rank) ||
         (attempt.stop_cause() != Attempt::NOT_ASKED && !rank.lost());
}

// For as long as it is to run on; infinite: unknown.
absl::Duration Remaining(const JobEntry& entry, absl::Duration running) {
  absl::Duration remaining = absl::InfiniteDuration();
  if (entry.demand.time_limit != absl::InfiniteDuration()) {
    remaining = entry.demand.time_limit -
                absl::Microseconds(entry.record.running_micros()) - running;
  }
  if (entry.job().progress().has_eta()) {
    remaining =
        std::min(remaining, FromProtoDuration(entry.job().progress().eta()));
  }
  return std::max(remaining, absl::ZeroDuration());
}

}  // namespace

bool Coordinator::IsUsable(const WorkerState& worker, absl::Time now) const {
  return worker.attached && !worker.lost && !worker.policy.drained() &&
         !worker.policy.excluded() &&
         (worker.held || now - worker.last_seen <= options_.suspect_after);
}

Coordinator::View Coordinator::Look(absl::Time now) const {
  View view;
  view.cluster.now = now;
  view.cluster.options = options_.scheduler;
  view.cluster.cpu_spare_since = cpu_spare_since_;
  view.cluster.gpu_spare_since = gpu_spare_since_;
  view.cluster.queues.clear();
  for (const auto& [id, queue] : queues_.queues()) {
    QueueShare share;
    share.guaranteed_processes = queue.guaranteed_processes();
    share.weight = queue.weight();
    if (queue.max_processes() > 0) share.limit = queue.max_processes();
    if (!queue.borrowing()) {
      share.limit = std::min(share.limit, queue.guaranteed_processes());
    }
    view.queues[id] = static_cast<int32_t>(view.cluster.queues.size());
    view.cluster.queues.push_back(share);
  }
  LookAtWorkers(now, &view);
  LookAtRunning(now, &view);
  view.jobs = jobs_.QueuedEntries();
  view.cluster.jobs.reserve(view.jobs.size() + 1);
  for (const JobEntry* entry : view.jobs) {
    view.cluster.jobs.push_back(ToPending(*entry, now, &view));
  }
  return view;
}

void Coordinator::LookAtWorkers(absl::Time now, View* view) const {
  absl::flat_hash_map<std::string_view, int32_t> racks;
  for (const auto& [id, worker] : workers_.workers()) {
    if (!IsUsable(worker, now)) continue;
    view->positions[id] = static_cast<int32_t>(view->workers.size());
    view->workers.push_back(&worker);
    WorkerRoom room;
    if (!worker.rack.empty()) {
      room.rack = racks.emplace(worker.rack, static_cast<int32_t>(racks.size()))
                      .first->second;
    }
    view->cluster.workers.push_back(std::move(room));
  }
  std::vector<std::vector<int32_t>> busy(view->workers.size());
  for (size_t i = 0; i < busy.size(); ++i) {
    busy[i].assign(view->workers[i]->occupied.begin(),
                   view->workers[i]->occupied.end());
  }
  for (const auto& [serial, entry] : jobs_.active_entries()) {
    const Attempt& attempt = entry->record.attempt();
    for (const AttemptMember& rank : attempt.members()) {
      if (!HoldsSlot(attempt, rank)) continue;
      const auto it = view->positions.find(rank.worker());
      if (it != view->positions.end()) busy[it->second].push_back(rank.slot());
    }
  }
  for (size_t i = 0; i < busy.size(); ++i) {
    const WorkerState& worker = *view->workers[i];
    WorkerRoom& room = view->cluster.workers[i];
    for (const v1::Slot& slot : worker.slots) {
      const bool gpu = slot.device() == v1::ResourceSpec::GPU;
      ++(gpu ? room.total_gpu : room.total_cpu);
      if (std::find(busy[i].begin(), busy[i].end(), slot.index()) !=
          busy[i].end()) {
        continue;
      }
      if (slot.unfit().empty()) {
        (gpu ? room.free_gpu : room.free_cpu).push_back(slot.index());
        continue;
      }
      ++(gpu ? room.unfit_gpu : room.unfit_cpu);
      const auto since = worker.unfit_since.find(slot.index());
      if (since != worker.unfit_since.end() &&
          now - since->second >= options_.unfit_grace) {
        ++(gpu ? room.lasting_unfit_gpu : room.lasting_unfit_cpu);
      }
    }
    std::sort(room.free_cpu.begin(), room.free_cpu.end());
    std::sort(room.free_gpu.begin(), room.free_gpu.end());
  }
}

int32_t Coordinator::View::UserNumber(const std::string& user) {
  return users.emplace(user, static_cast<int32_t>(users.size())).first->second;
}

int32_t Coordinator::View::QueueNumber(const std::string& queue) {
  const auto [it, added] =
      queues.emplace(queue, static_cast<int32_t>(cluster.queues.size()));
  // Of a job that was accepted before queues were made by hand.
  if (added) cluster.queues.push_back(QueueShare());
  return it->second;
}

void Coordinator::LookAtRunning(absl::Time now, View* view) const {
  for (const auto& [serial, entry] : jobs_.active_entries()) {
    const Attempt& attempt = entry->record.attempt();
    RunningJob job;
    job.serial = serial;
    job.priority = entry->demand.priority;
    job.queue = view->QueueNumber(entry->demand.queue);
    job.user = view->UserNumber(entry->job().user());
    job.ranks = job.usable_ranks = 0;
    for (const AttemptMember& rank : attempt.members()) {
      if (!HoldsSlot(attempt, rank)) continue;
      const auto it = view->positions.find(rank.worker());
      if (it != view->positions.end()) {
        if (job.usable_ranks++ == 0) {
          job.gpu = IsGpu(*view->workers[it->second], rank.slot());
        }
      }
      ++job.ranks;
    }
    if (job.ranks == 0) continue;
    job.sizes = entry->demand.sizes;
    job.preemptible = entry->demand.preemptible;
    job.stopping = attempt.stopping() || HasResult(attempt) ||
                   entry->job().state() == v1::CANCELLING;
    if (attempt.stop_cause() == Attempt::RESIZED) {
      job.kept_ranks = entry->record.target_processes();
    }
    job.started = attempt.has_placed_time()
                      ? FromTimestamp(attempt.placed_time())
                      : entry->placed;
    const absl::Duration running =
        attempt.has_running_since()
            ? now - FromTimestamp(attempt.running_since())
            : absl::ZeroDuration();
    const absl::Duration remaining = Remaining(*entry, running);
    // A job that should have ended is not trusted to do so soon.
    if (remaining > absl::ZeroDuration()) job.expected_end = now + remaining;
    view->running.push_back(entry);
    view->cluster.running.push_back(std::move(job));
  }
}

bool Coordinator::AwaitsHolder(const JobEntry& entry, absl::Time now) const {
  const auto& all = entry.job().checkpoints();
  if (now >= loaded_ + options_.suspect_after || all.empty() ||
      entry.record.start_over()) {
    return false;
  }
  const v1::Checkpoint& newest = all.Get(all.size() - 1);
  return !newest.durable() &&
         std::none_of(newest.workers().begin(), newest.workers().end(),
                      [&](const std::string& id) {
                        const auto it = workers_.workers().find(id);
                        return it != workers_.workers().end() &&
                               it->second.attached && !it->second.lost;
                      });
}

PendingJob Coordinator::ToPending(const JobEntry& entry, absl::Time now,
                                  View* view) const {
  PendingJob job;
  job.serial = entry.record.serial();
  job.priority = entry.demand.priority;
  job.queue = view->QueueNumber(entry.demand.queue);
  job.user = view->UserNumber(entry.job().user());
  job.device = entry.demand.device;
  job.ranks = entry.demand.ranks;
  if (!entry.demand.sizes.empty()) {
    const int32_t target = entry.record.target_processes();
    for (int32_t size : entry.demand.sizes) {
      if (target == 0 || size <= target) job.sizes.push_back(size);
    }
    if (job.sizes.empty()) job.sizes = {entry.demand.sizes.back()};
    job.ranks = job.sizes.front();
  }
  for (const std::string& worker : entry.record.last_workers()) {
    const auto it = view->positions.find(worker);
    job.last_workers.push_back(it == view->positions.end() ? -1 : it->second);
  }
  job.waiting_since = FromTimestamp(entry.job().create_time());
  job.duration = Remaining(entry, absl::ZeroDuration());
  job.not_before = entry.retry_at;
  if (AwaitsHolder(entry, now)) {
    job.not_before = std::max(job.not_before, loaded_ + options_.suspect_after);
  }
  job.resizing = entry.record.resizing();
  return job;
}

}  // namespace comera::server
