// Implements ServingOrder: which queued job is served next.
#include "server/scheduler/serving_order.h"

#include <algorithm>

namespace comera::server {
namespace {

// So many wide jobs of a queue may have others wait for them.
constexpr size_t kMaxWide = 16;

std::vector<int32_t> CountRoom(const ClusterSnapshot& snapshot) {
  std::vector<int32_t> room(2);
  for (const WorkerSlots& worker : snapshot.workers) {
    room[0] += static_cast<int32_t>(worker.free_cpu.size());
    room[1] += static_cast<int32_t>(worker.free_gpu.size());
  }
  for (const RunningJob& job : snapshot.running) {
    if (!job.stopping) continue;
    room[job.gpu] += std::max(0, job.usable_processes - job.kept_processes);
  }
  return room;
}

}  // namespace

ServingOrder::ServingOrder(const ClusterSnapshot& snapshot)
    : snapshot_(snapshot),
      use_(snapshot),
      room_(CountRoom(snapshot)),
      handed_out_(snapshot.jobs.size()),
      owed_(snapshot, use_, FindOwed()) {}

bool ServingOrder::LeavesRoomFor(const PendingJob& owed,
                                 const PendingJob& wide) const {
  const bool gpu = use_.UsesGpu(wide);
  if (gpu != use_.UsesGpu(owed) || wide.priority < owed.priority) return false;
  const int32_t need = wide.min_processes();
  // Room was made for it: if it left that to others now, it would have them
  // stopped again and again.
  if (owed.granted > 0) return false;
  // Only jobs of its own queue are in its way. Two periods of patience take
  // turns, so that neither waits for the other for ever.
  const absl::Duration waited = snapshot_.now - wide.waiting_since;
  if (!use_.HasLostPatience(wide) ||
      (wide.priority == owed.priority && wide.serial > owed.serial) ||
      static_cast<int64_t>(waited / snapshot_.options.patience) % 2 == 0) {
    return false;
  }
  return need <= room_[gpu] + use_.pool_processes(wide.queue, gpu);
}

std::vector<int32_t> ServingOrder::FindOwed() const {
  std::vector<int32_t> owed;
  std::vector<std::vector<const PendingJob*>> wide(snapshot_.queues.size());
  for (const PendingJob& job : snapshot_.jobs) {
    const int32_t need = job.min_processes();
    if (need <= use_.Owed(job.queue) || use_.Owed(job.queue) <= 0 ||
        job.not_before > snapshot_.now ||
        need > snapshot_.queues[job.queue].limit) {
      continue;
    }
    if (use_.HasLostPatience(job)) wide[job.queue].push_back(&job);
  }
  for (std::vector<const PendingJob*>& jobs : wide) {
    std::sort(jobs.begin(), jobs.end(),
              [](const PendingJob* a, const PendingJob* b) {
                if (a->priority != b->priority)
                  return a->priority > b->priority;
                return a->serial < b->serial;
              });
    if (jobs.size() > kMaxWide) jobs.resize(kMaxWide);
  }
  for (size_t i = 0; i < snapshot_.jobs.size(); ++i) {
    const PendingJob& job = snapshot_.jobs[i];
    const std::vector<const PendingJob*>& ahead = wide[job.queue];
    if (job.resizing ||
        (IsOwed(job.queue, job.min_processes()) &&
         std::none_of(ahead.begin(), ahead.end(), [&](const PendingJob* other) {
           return LeavesRoomFor(job, *other);
         }))) {
      owed.push_back(static_cast<int32_t>(i));
    }
  }
  return owed;
}

int32_t ServingOrder::Next() {
  if (!others_) {
    for (int32_t job = owed_.Next(); job >= 0; job = owed_.Next()) {
      const PendingJob& pending = snapshot_.jobs[job];
      // What was placed meanwhile may have used the guarantee up.
      if (!pending.resizing &&
          !IsOwed(pending.queue, pending.min_processes())) {
        continue;
      }
      handed_out_[job] = true;
      return job;
    }
    std::vector<int32_t> jobs;
    jobs.reserve(snapshot_.jobs.size());
    for (size_t i = 0; i < snapshot_.jobs.size(); ++i) {
      if (!handed_out_[i]) jobs.push_back(static_cast<int32_t>(i));
    }
    others_.emplace(snapshot_, use_, jobs);
  }
  return others_->Next();
}

std::string ServingOrder::Why(int32_t first, int32_t second) const {
  const PendingJob& a = snapshot_.jobs[first];
  const PendingJob& b = snapshot_.jobs[second];
  if (a.resizing != b.resizing) return "is being resized";
  if (IsOwed(a.queue, a.min_processes()) &&
      !IsOwed(b.queue, b.min_processes())) {
    return "its queue is below its guarantee";
  }
  if (a.priority != b.priority) return "higher priority";
  if (use_.HasLostPatience(a) && !use_.HasLostPatience(b)) {
    return "has waited for long";
  }
  if (a.queue != b.queue && use_.Share(a.queue) != use_.Share(b.queue)) {
    return "its queue uses less of its share";
  }
  if (a.queue == b.queue && a.user != b.user &&
      use_.user_processes(first) != use_.user_processes(second)) {
    return "its user has fewer processes";
  }
  return "was submitted before";
}

}  // namespace comera::server
