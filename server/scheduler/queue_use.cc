// Implements QueueUse: processes in use by queue and user, and fair parts.
#include "server/scheduler/queue_use.h"

#include <algorithm>

namespace comera::server {
namespace {

// Whether one who has `processes`, `guaranteed` of them in any case, may get
// `need` more as part of a fair share. A job that is wider than the share may
// exceed it, and what is guaranteed to others of its queue does not count
// against it, or it would never be due; for the rest, rounding up would add up
// to more than there is.
bool IsBelow(int32_t processes, int32_t guaranteed, int32_t need, double fair) {
  return need > fair ? processes - guaranteed < fair : processes + need <= fair;
}

}  // namespace

QueueUse::QueueUse(const ClusterSnapshot& snapshot)
    : snapshot_(snapshot),
      queues_(snapshot.queues.size()),
      user_of_(snapshot.jobs.size()) {
  using Name = std::pair<int32_t, int32_t>;
  std::vector<Name> names;
  names.reserve(snapshot.jobs.size() + snapshot.running.size());
  for (const PendingJob& job : snapshot.jobs) {
    names.push_back({job.queue, job.user});
  }
  for (const RunningJob& job : snapshot.running) {
    names.push_back({job.queue, job.user});
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  users_.resize(names.size());
  const auto number_of = [&](const Name& name) {
    return static_cast<int32_t>(
        std::lower_bound(names.begin(), names.end(), name) - names.begin());
  };
  const auto want = [&](int32_t queue, int32_t user, bool gpu) {
    if (users_[user].wants[gpu]) return;
    users_[user].wants[gpu] = true;
    ++queues_[queue].pools[gpu].users;
  };
  for (const RunningJob& job : snapshot.running) {
    const int32_t user = number_of({job.queue, job.user});
    queues_[job.queue].processes += job.processes;
    queues_[job.queue].pools[job.gpu].processes += job.processes;
    users_[user].processes += job.processes;
    want(job.queue, user, job.gpu);
  }
  int32_t slots[2] = {0, 0};
  for (const WorkerSlots& worker : snapshot.workers) {
    slots[0] += worker.total_cpu - worker.lasting_unfit_cpu;
    slots[1] += worker.total_gpu - worker.lasting_unfit_gpu;
    has_gpus_ = has_gpus_ || worker.total_gpu > 0;
  }
  for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
    const PendingJob& job = snapshot.jobs[i];
    user_of_[i] = number_of({job.queue, job.user});
    want(job.queue, user_of_[i], UsesGpu(job));
  }
  for (const bool gpu : {false, true}) {
    double weights = 0;
    for (size_t q = 0; q < queues_.size(); ++q) {
      if (queues_[q].pools[gpu].users > 0) weights += snapshot.queues[q].weight;
    }
    for (size_t q = 0; q < queues_.size(); ++q) {
      Pool& pool = queues_[q].pools[gpu];
      if (pool.users == 0) continue;
      pool.fair = slots[gpu] * snapshot.queues[q].weight / weights;
    }
  }
}

void QueueUse::Start(int32_t job, int32_t processes) {
  const PendingJob& started = snapshot_.jobs[job];
  Queue& queue = queues_[started.queue];
  queue.processes += processes;
  queue.pools[UsesGpu(started)].processes += processes;
  users_[user_of_[job]].processes += processes;
}

bool QueueUse::IsDue(int32_t job) const {
  const PendingJob& waiting = snapshot_.jobs[job];
  if (!HasLostPatience(waiting)) return false;
  const Pool& pool = queues_[waiting.queue].pools[UsesGpu(waiting)];
  return IsBelow(pool.processes,
                 snapshot_.queues[waiting.queue].guaranteed_processes,
                 waiting.min_processes(), pool.fair);
}

bool QueueUse::IsDueInQueue(int32_t job) const {
  const PendingJob& waiting = snapshot_.jobs[job];
  if (!HasLostPatience(waiting)) return false;
  const Pool& pool = queues_[waiting.queue].pools[UsesGpu(waiting)];
  return IsBelow(user_processes(job),
                 snapshot_.queues[waiting.queue].guaranteed_processes,
                 waiting.min_processes(), pool.fair / pool.users);
}

}  // namespace comera::server
