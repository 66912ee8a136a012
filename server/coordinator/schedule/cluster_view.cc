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

// How much of the job's time limit is left; infinite: it has none.
absl::Duration LimitLeft(const JobEntry& entry, absl::Duration running) {
  if (entry.demand().time_limit == absl::InfiniteDuration()) {
    return absl::InfiniteDuration();
  }
  return std::max(absl::ZeroDuration(),
                  entry.demand().time_limit -
                      absl::Microseconds(entry.record().running_micros()) -
                      running);
}

// What the job told last, which may be long ago.
absl::Duration Eta(const JobEntry& entry) {
  if (!entry.job().progress().has_eta()) return absl::InfiniteDuration();
  return std::max(absl::ZeroDuration(),
                  FromProtoDuration(entry.job().progress().eta()));
}

PassMemory::Told ToldBy(const JobEntry& entry) {
  return {entry.record().serial(), entry.attempt().number(), Eta(entry)};
}

}  // namespace

ClusterView::ClusterView(const Tables& tables, const Options& options,
                         absl::Time now)
    : options_(options), now_(now) {
  snapshot_.now = now;
  snapshot_.options = options.scheduler;
  snapshot_.cpu_spare_since = options.cpu_spare_since;
  snapshot_.gpu_spare_since = options.gpu_spare_since;
  AddQueues(*tables.queues);
  AddWorkers(*tables.workers);
  AddSlots(*tables.jobs);
  AddRunning(*tables.jobs);
  const std::vector<JobEntry*> queued = tables.jobs->index().Queued();
  queued_.reserve(queued.size());
  snapshot_.jobs.reserve(queued.size() + 1);
  for (JobEntry* entry : queued) {
    const StartChoice::Kind start = tables.starts->Choose(*entry, now).kind;
    if (start == StartChoice::kWait || start == StartChoice::kLost) continue;
    queued_.push_back(entry);
    snapshot_.jobs.push_back(ToPending(*entry));
  }
}

void ClusterView::Hear(const JobTable& jobs, absl::Time now,
                       PassMemory* memory) {
  memory->BeginHearing();
  for (const auto& [serial, entry] : jobs.index().active_by_serial()) {
    if (entry->job().progress().has_eta()) memory->Hear(ToldBy(*entry), now);
  }
  memory->EndHearing();
}

int32_t ClusterView::PositionOf(const JobEntry& entry) const {
  const auto at = std::find(queued_.begin(), queued_.end(), &entry);
  return at == queued_.end() ? -1 : static_cast<int32_t>(at - queued_.begin());
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

void ClusterView::CountOut(const WorkerState& worker) {
  const bool away = !worker.IsConnected(now_, options_.suspect_after);
  bool has[2] = {false, false};
  for (const v1::Slot& slot : worker.slots())
    has[slot.device() == v1::ResourceSpec::GPU] = true;
  WorkersOut* const out[2] = {&snapshot_.cpu_out, &snapshot_.gpu_out};
  for (const bool gpu : {false, true}) {
    if (has[gpu]) ++(away ? out[gpu]->away : out[gpu]->drained);
  }
}

void ClusterView::AddWorkers(const WorkerTable& workers) {
  absl::flat_hash_map<std::string_view, int32_t> racks;
  for (const auto& [id, worker] : workers.workers()) {
    if (!worker.IsUsable(now_, options_.suspect_after)) {
      CountOut(worker);
      continue;
    }
    worker_numbers_[id] = static_cast<int32_t>(workers_.size());
    workers_.push_back(&worker);
    WorkerSlots room;
    room.runs_programs = worker.runs_programs();
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
  const PassMemory none;
  const PassMemory& memory =
      options_.memory == nullptr ? none : *options_.memory;
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
                   attempt.finishing() || entry->state() == v1::CANCELLING;
    if (attempt.record().stop_cause() == AttemptRecord::RESIZED) {
      job.kept_processes = entry->record().target_processes();
    }
    job.started = attempt.PlacedTime();
    const absl::Duration limit = LimitLeft(*entry, attempt.RunningFor(now_));
    // A job that should have ended is not trusted to do so soon.
    if (limit > absl::ZeroDuration()) {
      const absl::Time end = memory.EndOf(ToldBy(*entry), now_);
      job.expected_end = std::min(now_ + limit, end);
    }
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
  job.program = demand.program;
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
  job.duration = std::min(LimitLeft(entry, absl::ZeroDuration()), Eta(entry));
  job.not_before = entry.retry_at();
  job.resizing = entry.record().resizing();
  if (options_.memory != nullptr) {
    job.granted = options_.memory->GrantedTo(job.serial);
  }
  return job;
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
