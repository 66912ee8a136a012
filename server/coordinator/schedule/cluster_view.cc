// Implements ClusterView: turns the tables into the scheduler's numbers.
#include "server/coordinator/schedule/cluster_view.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

bool IsGpu(const WorkerState& worker, int32_t slot) {
  for (const v1::Slot& known : worker.slots()) {
    if (known.index() == slot) return known.device() == v1::ResourceSpec::GPU;
  }
  return false;
}

// How long the job will still run; infinite: unknown.
absl::Duration Remaining(const JobEntry& entry, absl::Duration running) {
  absl::Duration remaining = absl::InfiniteDuration();
  if (entry.demand().time_limit != absl::InfiniteDuration()) {
    remaining = entry.demand().time_limit -
                absl::Microseconds(entry.record().running_micros()) - running;
  }
  if (entry.job().progress().has_eta()) {
    remaining =
        std::min(remaining, FromProtoDuration(entry.job().progress().eta()));
  }
  return std::max(remaining, absl::ZeroDuration());
}

}  // namespace

ClusterView::ClusterView(const Tables& tables, const Options& options,
                         absl::Time now)
    : options_(options), now_(now), peers_(tables.peers) {
  snapshot_.now = now;
  snapshot_.options = options.scheduler;
  snapshot_.cpu_spare_since = options.cpu_spare_since;
  snapshot_.gpu_spare_since = options.gpu_spare_since;
  AddQueues(*tables.queues);
  AddWorkers(*tables.workers);
  AddSlots(*tables.jobs);
  AddRunning(*tables.jobs);
  queued_ = tables.jobs->index().Queued();
  snapshot_.jobs.reserve(queued_.size() + 1);
  for (const JobEntry* entry : queued_) {
    snapshot_.jobs.push_back(ToPending(*entry));
  }
}

int32_t ClusterView::PositionOf(const JobEntry& entry) const {
  return static_cast<int32_t>(
      std::find(queued_.begin(), queued_.end(), &entry) - queued_.begin());
}

int32_t ClusterView::AddQueued(const JobEntry& entry) {
  snapshot_.jobs.push_back(ToPending(entry));
  return static_cast<int32_t>(snapshot_.jobs.size()) - 1;
}

void ClusterView::AddQueues(const QueueTable& queues) {
  snapshot_.queues.clear();
  for (const auto& [id, queue] : queues.queues()) {
    QueueShare share;
    share.guaranteed_processes = queue.guaranteed_processes();
    share.weight = queue.weight();
    if (queue.max_processes() > 0) share.limit = queue.max_processes();
    if (!queue.borrowing()) {
      share.limit = std::min(share.limit, queue.guaranteed_processes());
    }
    queue_numbers_[id] = static_cast<int32_t>(snapshot_.queues.size());
    snapshot_.queues.push_back(share);
  }
}

void ClusterView::AddWorkers(const WorkerTable& workers) {
  absl::flat_hash_map<std::string_view, int32_t> racks;
  for (const auto& [id, worker] : workers.workers()) {
    if (!worker.IsUsable(now_, options_.suspect_after)) continue;
    worker_numbers_[id] = static_cast<int32_t>(workers_.size());
    workers_.push_back(&worker);
    WorkerSlots room;
    if (!worker.rack().empty()) {
      room.rack =
          racks.emplace(worker.rack(), static_cast<int32_t>(racks.size()))
              .first->second;
    }
    snapshot_.workers.push_back(std::move(room));
  }
}

void ClusterView::AddSlots(const JobTable& jobs) {
  std::vector<std::vector<int32_t>> busy(workers_.size());
  for (size_t i = 0; i < busy.size(); ++i) {
    busy[i].assign(workers_[i]->occupied().begin(),
                   workers_[i]->occupied().end());
  }
  for (const auto& [serial, entry] : jobs.index().active_by_serial()) {
    const Attempt& attempt = entry->attempt();
    for (const GangMember& member : attempt.members()) {
      if (!attempt.HoldsSlot(member)) continue;
      const int32_t worker = WorkerNumber(member.worker());
      if (worker >= 0) busy[worker].push_back(member.slot());
    }
  }
  for (size_t i = 0; i < busy.size(); ++i) {
    const WorkerState& worker = *workers_[i];
    WorkerSlots& room = snapshot_.workers[i];
    for (const v1::Slot& slot : worker.slots()) {
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
      if (worker.IsUnfitFor(slot.index(), now_, options_.unfit_grace)) {
        ++(gpu ? room.lasting_unfit_gpu : room.lasting_unfit_cpu);
      }
    }
    std::sort(room.free_cpu.begin(), room.free_cpu.end());
    std::sort(room.free_gpu.begin(), room.free_gpu.end());
  }
}

void ClusterView::AddRunning(const JobTable& jobs) {
  for (const auto& [serial, entry] : jobs.index().active_by_serial()) {
    const Attempt& attempt = entry->attempt();
    RunningJob job;
    job.serial = serial;
    job.priority = entry->demand().priority;
    job.queue = QueueNumber(entry->demand().queue);
    job.user = UserNumber(entry->job().user());
    job.processes = job.usable_processes = 0;
    for (const GangMember& member : attempt.members()) {
      if (!attempt.HoldsSlot(member)) continue;
      const int32_t worker = WorkerNumber(member.worker());
      if (worker >= 0 && job.usable_processes++ == 0) {
        job.gpu = IsGpu(*workers_[worker], member.slot());
      }
      ++job.processes;
    }
    if (job.processes == 0) continue;
    job.sizes = entry->demand().sizes;
    job.preemptible = entry->demand().preemptible;
    job.stopping = attempt.stopping() || attempt.HasResult() ||
                   entry->state() == v1::CANCELLING;
    if (attempt.record().stop_cause() == AttemptRecord::RESIZED) {
      job.kept_processes = entry->record().target_processes();
    }
    job.started = attempt.PlacedTime();
    const absl::Duration remaining =
        Remaining(*entry, attempt.RunningFor(now_));
    // A job that should have ended is not trusted to do so soon.
    if (remaining > absl::ZeroDuration()) job.expected_end = now_ + remaining;
    running_.push_back(entry);
    snapshot_.running.push_back(std::move(job));
  }
}

PendingJob ClusterView::ToPending(const JobEntry& entry) {
  const JobDemand& demand = entry.demand();
  PendingJob job;
  job.serial = entry.record().serial();
  job.priority = demand.priority;
  job.queue = QueueNumber(demand.queue);
  job.user = UserNumber(entry.job().user());
  job.device = demand.device;
  job.processes = demand.processes;
  if (!demand.sizes.empty()) {
    const int32_t target = entry.record().target_processes();
    for (int32_t size : demand.sizes) {
      if (target == 0 || size <= target) job.sizes.push_back(size);
    }
    if (job.sizes.empty()) job.sizes = {demand.sizes.back()};
    job.processes = job.sizes.front();
  }
  for (const std::string& worker : entry.record().last_workers()) {
    job.last_workers.push_back(WorkerNumber(worker));
  }
  job.waiting_since = FromTimestamp(entry.job().create_time());
  job.duration = Remaining(entry, absl::ZeroDuration());
  job.not_before = entry.retry_at();
  if (AwaitsHolder(entry)) {
    job.not_before = std::max(job.not_before, options_.holders_known_at);
  }
  job.resizing = entry.record().resizing();
  return job;
}

bool ClusterView::AwaitsHolder(const JobEntry& entry) const {
  return now_ < options_.holders_known_at && !entry.record().start_over() &&
         !peers_->HasReachableHolder(entry.job());
}

int32_t ClusterView::WorkerNumber(const std::string& id) const {
  const auto it = worker_numbers_.find(id);
  return it == worker_numbers_.end() ? -1 : it->second;
}

int32_t ClusterView::UserNumber(const std::string& user) {
  return user_numbers_.emplace(user, static_cast<int32_t>(user_numbers_.size()))
      .first->second;
}

int32_t ClusterView::QueueNumber(const std::string& queue) {
  const auto [it, added] = queue_numbers_.emplace(
      queue, static_cast<int32_t>(snapshot_.queues.size()));
  // The job was accepted before queues were made by hand.
  if (added) snapshot_.queues.push_back(QueueShare());
  return it->second;
}

}  // namespace comera::server
