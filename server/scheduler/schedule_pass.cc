// Implements SchedulePass: every queued job is started, preempts, or waits.
#include "server/scheduler/schedule_pass.h"

#include <algorithm>
#include <utility>

namespace comera::server {
namespace {

// A running job whose end is unknown is taken to go on for as long as it has
// run, and at least for this.
constexpr absl::Duration kLeastRemaining = absl::Minutes(1);
// If even all expected ends leave too few slots (some are unfit for a while),
// other jobs may use the free ones for this long.
constexpr absl::Duration kUnknownWait = absl::Minutes(10);

}  // namespace

SchedulePass::SchedulePass(const ClusterSnapshot& snapshot, int32_t probe)
    : snapshot_(snapshot),
      probe_(probe),
      order_(snapshot),
      planner_(snapshot, order_),
      queues_(snapshot.queues.size()),
      leaving_(snapshot.running.size()) {
  for (size_t i = 0; i < snapshot.workers.size(); ++i) {
    const WorkerSlots& room = snapshot.workers[i];
    const auto worker = static_cast<int32_t>(i);
    pools_[0].slots.Add(worker, room.rack, room.runs_programs, &room.free_cpu);
    pools_[0].total += room.total_cpu;
    if (room.runs_programs) pools_[0].total_for_programs += room.total_cpu;
    pools_[0].unfit += room.unfit_cpu;
    pools_[0].lasting_unfit += room.lasting_unfit_cpu;
    pools_[1].slots.Add(worker, room.rack, room.runs_programs, &room.free_gpu);
    pools_[1].total += room.total_gpu;
    if (room.runs_programs) pools_[1].total_for_programs += room.total_gpu;
    pools_[1].unfit += room.unfit_gpu;
    pools_[1].lasting_unfit += room.lasting_unfit_gpu;
  }
  for (Pool& pool : pools_) pool.free_at_start = pool.slots.free();
  for (const RunningJob& job : snapshot.running) {
    if (!job.stopping) continue;
    leaving_[&job - snapshot.running.data()] = true;
    pools_[job.gpu].coming +=
        std::max(0, job.usable_processes - job.kept_processes);
    queues_[job.queue].coming +=
        std::max(0, job.processes - job.kept_processes);
  }
  std::vector<bool> wants[2];
  for (std::vector<bool>& queues : wants) queues.resize(queues_.size());
  for (const RunningJob& job : snapshot.running) {
    wants[job.gpu][job.queue] = true;
  }
  for (const PendingJob& job : snapshot.jobs) {
    const bool gpu = UsesGpu(job);
    pools_[gpu].least_need =
        std::min(pools_[gpu].least_need, job.min_processes());
    wants[gpu][job.queue] = true;
    ++left_[job.priority];
  }
  for (const bool gpu : {false, true}) {
    int64_t guaranteed = 0;
    for (size_t q = 0; q < queues_.size(); ++q) {
      if (wants[gpu][q]) guaranteed += snapshot.queues[q].guaranteed_processes;
    }
    pools_[gpu].covers_guarantees = guaranteed <= fit_slots(gpu);
  }
}

Decision SchedulePass::Run() {
  decision_.waiting.reserve(snapshot_.jobs.size());
  int32_t job = 0;
  while ((job = order_.Next()) >= 0) {
    Visit(job);
    if (probe_ >= 0) continue;
    decision_.more = static_cast<int32_t>(decision_.placements.size()) >=
                     snapshot_.options.max_placements;
    if (decision_.more || (Closed(false) && Closed(true))) break;
  }
  // No other job could be served either, whatever it needs.
  while (!decision_.more && (job = order_.Next()) >= 0) {
    const PendingJob& pending = snapshot_.jobs[job];
    const Pool& pool = pools_[UsesGpu(pending)];
    WaitReason::Kind kind = WaitReason::kEarlierJobs;
    if (pool.total == 0) {
      kind = WaitReason::kNoWorker;
    } else if (pending.min_processes() > pool.total - pool.lasting_unfit) {
      kind = WaitReason::kPoolTooSmall;
    }
    Wait(job, Reason(kind, pending));
  }
  if (!decision_.more) {
    decision_.cpu_spare = !pools_[0].waits && pools_[0].slots.free() > 0;
    decision_.gpu_spare = !pools_[1].waits && pools_[1].slots.free() > 0;
    Grow();
  }
  return std::move(decision_);
}

bool SchedulePass::Closed(bool gpu) {
  const Pool& pool = pools_[gpu];
  if (pool.total == 0) return true;
  if (!pool.head || pool.free() >= pool.least_need) return false;
  // What is left is too little, so that jobs would have to be preempted.
  if (order_.in_owed_tier()) return false;
  if (left_.empty() || plans_ >= snapshot_.options.max_plans) return true;
  return !HeadIsFar(gpu) || !planner_.HasVictims(left_.rbegin()->first, gpu);
}

WaitReason SchedulePass::Reason(WaitReason::Kind kind,
                                const PendingJob& job) const {
  const bool gpu = UsesGpu(job);
  const Pool& pool = pools_[gpu];
  WaitReason reason;
  reason.kind = kind;
  reason.gpu = gpu;
  switch (kind) {
    case WaitReason::kNoWorker: {
      const WorkersOut& out = gpu ? snapshot_.gpu_out : snapshot_.cpu_out;
      reason.need = job.min_processes();
      reason.have = out.drained;
      reason.unfit = out.away;
      break;
    }
    case WaitReason::kRoomComing:
      reason.need = job.min_processes();
      break;
    case WaitReason::kPoolTooSmall:
      reason.need = job.min_processes();
      reason.have = pool.total - pool.lasting_unfit;
      reason.unfit = pool.lasting_unfit;
      break;
    case WaitReason::kNoRoom:
      reason.need = job.min_processes();
      reason.have = pool.free();
      reason.unfit = pool.unfit;
      break;
    case WaitReason::kNoProgramRoom:
      reason.need = job.min_processes();
      reason.have = pool.slots.free_for_programs();
      reason.limit = pool.total_for_programs;
      break;
    case WaitReason::kQueueLimit:
    case WaitReason::kQueueTooSmall:
      reason.need = job.min_processes();
      reason.limit = snapshot_.queues[job.queue].limit;
      if (kind == WaitReason::kQueueLimit) {
        reason.have = order_.queue_processes(job.queue);
      }
      break;
    default:
      break;
  }
  return reason;
}

void SchedulePass::Wait(int32_t job, const WaitReason& reason) {
  decision_.waiting.push_back({job, reason});
  if (job == probe_) found_.reason = reason;
}

int32_t SchedulePass::Fitting(const PendingJob& job, int32_t room) const {
  if (job.sizes.empty()) return job.processes <= room ? job.processes : 0;
  for (int32_t size : job.sizes) {
    if (size <= room) return size;
  }
  return 0;
}

bool SchedulePass::HeadIsFar(bool gpu) {
  Pool& pool = pools_[gpu];
  if (pool.head_is_far) return *pool.head_is_far;
  const SchedulerOptions& options = snapshot_.options;
  const PendingJob& job = snapshot_.jobs[pool.head_job];
  std::vector<Release> releases = pool.releases;
  releases.push_back(
      {snapshot_.now + options.preemption_grace, pool.coming_unclaimed()});
  for (size_t i = 0; i < snapshot_.running.size(); ++i) {
    const RunningJob& other = snapshot_.running[i];
    if (other.gpu != gpu || other.usable_processes == 0 || leaving_[i]) {
      continue;
    }
    absl::Time end = EndOf(other, /*guess=*/true);
    if (planner_.MayStop(other, job)) {
      end = std::min(
          end, std::max(snapshot_.now, other.started + options.min_run_time) +
                   options.preemption_grace);
    }
    releases.push_back({end, other.usable_processes});
  }
  const absl::Time start =
      Reservation::Make(job.min_processes(), pool.free(),
                        std::max(snapshot_.now, job.not_before),
                        std::move(releases))
          .time;
  pool.head_is_far = start > snapshot_.now + options.hold_limit;
  return *pool.head_is_far;
}

bool SchedulePass::IsBound(const PendingJob& job) {
  const bool gpu = UsesGpu(job);
  const Pool& pool = pools_[gpu];
  if (!pool.head) return false;
  if (!order_.in_owed_tier() ||
      !order_.IsOwed(job.queue, job.min_processes())) {
    return true;
  }
  // The head waits for slots that are not this queue's.
  if (!pool.head_is_owed) return false;
  if (pool.covers_guarantees &&
      snapshot_.jobs[pool.head_job].queue != job.queue) {
    return false;
  }
  return !HeadIsFar(gpu);
}

int32_t SchedulePass::LeftByHead(const Pool& pool, const PendingJob& job,
                                 int32_t slots, absl::Time end) {
  if (end <= pool.head->time) return slots;
  return std::min(slots, std::max({0, pool.head->extra, job.granted}));
}

int32_t SchedulePass::Startable(const PendingJob& job, const Pool& pool,
                                const Queue& queue) {
  int32_t room = pool.free();
  if (job.program) room = std::min(room, pool.slots.free_for_programs());
  const absl::Time end = EndIfStarted(job);
  if (IsBound(job)) room = LeftByHead(pool, job, room, end);
  room = std::min(room, QueueFree(job.queue));
  if (order_.in_owed_tier() && !job.resizing && !left_.empty()) {
    // What is owed comes before others' turn; what an elastic job could use
    // beyond that does not.
    room = std::min(room, order_.Owed(job.queue));
  }
  if (queue.head && end > queue.head->time) {
    room = std::min(room, queue.head->extra);
  }
  return Fitting(job, room);
}

void SchedulePass::Visit(int32_t index) {
  const PendingJob& job = snapshot_.jobs[index];
  if (const auto left = left_.find(job.priority); --left->second == 0) {
    left_.erase(left);
  }
  const bool gpu = UsesGpu(job);
  Pool& pool = pools_[gpu];
  Queue& queue = queues_[job.queue];
  if (index == probe_) {
    found_.free = pool.free();
    found_.queue_room = QueueFree(job.queue);
    found_.head = pool.head;
    found_.queue_head = queue.head;
  } else if (probe_ >= 0 && UsesGpu(snapshot_.jobs[probe_]) == gpu &&
             found_.processes_now == 0 &&
             found_.reason.kind == WaitReason::kNone) {
    found_.ahead.push_back(index);
  }
  const int32_t need = job.min_processes();
  // These hold nobody back.
  if (pool.total == 0) return Wait(index, Reason(WaitReason::kNoWorker, job));
  if (need > pool.total - pool.lasting_unfit) {
    return Wait(index, Reason(WaitReason::kPoolTooSmall, job));
  }
  if (need > snapshot_.queues[job.queue].limit) {
    return Wait(index, Reason(WaitReason::kQueueTooSmall, job));
  }
  // The slots that are kept for a waiting job, or that others leave for it, may
  // be on workers that do not run programs.
  if (job.program && pool.total_for_programs < pool.total &&
      pool.slots.free_for_programs() < need) {
    return Wait(index, Reason(WaitReason::kNoProgramRoom, job));
  }
  const int32_t queue_room = QueueFree(job.queue);
  const bool limited = need > queue_room;
  if (job.not_before > snapshot_.now) {
    pool.waits = pool.waits || !limited;
    if (limited ? !queue.head : !pool.head) Reserve(index, queue_room);
    return Wait(index, Reason(WaitReason::kBackOff, job));
  }
  if (const int32_t processes = Startable(job, pool, queue); processes > 0) {
    return Start(index, processes);
  }
  // The cluster does not wait for a queue's own limit.
  if (queue.head && (limited || !queue.head->Allows(need, EndIfStarted(job)))) {
    return Wait(index, Reason(WaitReason::kEarlierInQueue, job));
  }
  if (!limited) pool.waits = true;
  if (!(pool.head && limited) && ClaimRoom(index, queue_room)) {
    return Wait(index, Reason(WaitReason::kRoomComing, job));
  }
  if (!limited && pool.head) {
    return Wait(index, Reason(WaitReason::kEarlierJobs, job));
  }
  const WaitReason reason =
      Reason(limited ? WaitReason::kQueueLimit : WaitReason::kNoRoom, job);
  Reserve(index, queue_room);
  Wait(index, reason);
}

void SchedulePass::Start(int32_t index, int32_t processes) {
  const PendingJob& job = snapshot_.jobs[index];
  const bool gpu = UsesGpu(job);
  Pool& pool = pools_[gpu];
  Queue& queue = queues_[job.queue];
  const absl::Time end = EndIfStarted(job);
  if (pool.head) pool.head->CountStart(processes, end);
  if (queue.head) queue.head->CountStart(processes, end);
  pool.releases.push_back({end, processes});
  queue.releases.push_back({end, processes});
  order_.Placed(index, processes);
  decision_.placements.push_back(
      {index, pool.slots.Allocate(processes, job.last_workers, job.program)});
  if (index == probe_) found_.processes_now = processes;
}

bool SchedulePass::ClaimRoom(int32_t index, int32_t queue_room) {
  const PendingJob& job = snapshot_.jobs[index];
  const bool gpu = UsesGpu(job);
  Pool& pool = pools_[gpu];
  Queue& queue = queues_[job.queue];
  const int32_t need = job.min_processes();
  const bool bound = IsBound(job);
  PreemptionPlanner::Need missing;
  missing.job = index;
  missing.gpu = gpu;
  int32_t room = pool.free() + pool.coming_unclaimed();
  if (bound) {
    const absl::Time end =
        EndIfStarted(job) + snapshot_.options.preemption_grace;
    const int32_t left = LeftByHead(pool, job, room, end);
    // The head's extra slots may be those that others would leave, so they do
    // not add up.
    room = left >= need || end <= pool.head->time ? left
                                                  : std::min(room, job.granted);
    if (end > pool.head->time) missing.spare_until = pool.head->time;
  }
  missing.slots = need - room;
  missing.queue_processes =
      need - queue_room - std::max(0, queue.coming - queue.claimed);
  if (missing.slots > 0 || missing.queue_processes > 0) {
    // Nobody is stopped for slots that soon come free by themselves.
    if (!bound && missing.queue_processes <= 0) {
      const Reservation soon = Reservation::Make(
          need, pool.free(), snapshot_.now, PoolReleases(gpu, /*guess=*/false));
      if (soon.time <= snapshot_.now + snapshot_.options.preemption_grace) {
        return false;
      }
    }
    if (bound && !HeadIsFar(gpu)) return false;
    if (!StopOthers(missing, bound)) return false;
  }
  pool.claimed += need;
  queue.claimed += need;
  order_.Claimed(index, need);
  return true;
}

bool SchedulePass::StopOthers(const PreemptionPlanner::Need& missing,
                              bool bound) {
  const PendingJob& job = snapshot_.jobs[missing.job];
  Queue& queue = queues_[job.queue];
  if (bound && missing.slots >= queue.hopeless_slots &&
      job.priority <= queue.hopeless_priority &&
      missing.spare_until != absl::InfinitePast()) {
    return false;
  }
  if (!planner_.MayHelp(missing)) return false;
  if (++plans_ > snapshot_.options.max_plans) return false;
  const std::vector<StopOrder> orders = planner_.Plan(missing);
  if (orders.empty()) {
    if (bound) {
      queue.hopeless_priority = job.priority;
      queue.hopeless_slots = missing.slots;
    }
    return false;
  }
  for (const StopOrder& order : orders) {
    const RunningJob& victim = snapshot_.running[order.running];
    pools_[victim.gpu].coming +=
        std::max(0, victim.usable_processes - order.processes);
    queues_[victim.queue].coming += victim.processes - order.processes;
    leaving_[order.running] = true;
    decision_.stops.push_back(order);
  }
  return true;
}

void SchedulePass::Reserve(int32_t index, int32_t queue_room) {
  const PendingJob& job = snapshot_.jobs[index];
  const bool gpu = UsesGpu(job);
  Pool& pool = pools_[gpu];
  Queue& queue = queues_[job.queue];
  const int32_t need = job.min_processes();
  const absl::Time earliest = std::max(snapshot_.now, job.not_before);
  // The cluster does not wait for a queue's own limit.
  std::optional<Reservation>& head = need > queue_room ? queue.head : pool.head;
  head = need > queue_room
             ? Reservation::Make(need, queue_room, earliest,
                                 QueueReleases(job.queue))
             : Reservation::Make(need, pool.free(), earliest,
                                 PoolReleases(gpu, /*guess=*/true));
  if (head->time == absl::InfiniteFuture()) {
    head->time = snapshot_.now + kUnknownWait;
    head->extra = 0;
  }
  if (&head == &pool.head) {
    pool.head_job = index;
    pool.head_is_owed = order_.in_owed_tier() && order_.IsOwed(job.queue, need);
  }
}

absl::Time SchedulePass::EndOf(const RunningJob& job, bool guess) const {
  if (job.expected_end != absl::InfiniteFuture()) {
    return std::max(job.expected_end, snapshot_.now);
  }
  if (!guess) return absl::InfiniteFuture();
  return snapshot_.now + std::max(kLeastRemaining, snapshot_.now - job.started);
}

std::vector<Release> SchedulePass::PoolReleases(bool gpu, bool guess) const {
  const Pool& pool = pools_[gpu];
  std::vector<Release> releases = pool.releases;
  releases.push_back({snapshot_.now + snapshot_.options.preemption_grace,
                      pool.coming_unclaimed()});
  for (size_t i = 0; i < snapshot_.running.size(); ++i) {
    const RunningJob& job = snapshot_.running[i];
    if (job.gpu != gpu || job.usable_processes == 0 || leaving_[i]) continue;
    releases.push_back({EndOf(job, guess), job.usable_processes});
  }
  return releases;
}

std::vector<Release> SchedulePass::QueueReleases(int32_t index) const {
  const Queue& queue = queues_[index];
  std::vector<Release> releases = queue.releases;
  releases.push_back({snapshot_.now + snapshot_.options.preemption_grace,
                      std::max(0, queue.coming - queue.claimed)});
  for (size_t i = 0; i < snapshot_.running.size(); ++i) {
    const RunningJob& job = snapshot_.running[i];
    if (job.queue != index || leaving_[i]) continue;
    releases.push_back({EndOf(job, /*guess=*/true), job.processes});
  }
  return releases;
}

void SchedulePass::Grow() {
  for (const bool gpu : {false, true}) {
    const Pool& pool = pools_[gpu];
    const absl::Time since =
        gpu ? snapshot_.gpu_spare_since : snapshot_.cpu_spare_since;
    if (pool.waits || snapshot_.now - since < snapshot_.options.grow_after) {
      continue;
    }
    int32_t spare = pool.free();
    for (size_t i = 0; i < snapshot_.running.size() && spare > 0; ++i) {
      const RunningJob& job = snapshot_.running[i];
      if (job.gpu != gpu || job.stopping || leaving_[i] || job.sizes.empty() ||
          job.sizes.front() <= job.processes ||
          snapshot_.now - job.started < snapshot_.options.min_run_time) {
        continue;
      }
      const int32_t room = std::min(spare, QueueRoom(job.queue));
      for (int32_t size : job.sizes) {
        if (size <= job.processes) break;
        if (size > job.processes + room) continue;
        decision_.stops.push_back(
            {StopOrder::kGrow, static_cast<int32_t>(i), size, -1});
        order_.Placed(job, size - job.processes);
        spare -= size - job.processes;
        break;
      }
    }
  }
}

}  // namespace comera::server
