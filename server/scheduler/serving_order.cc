// Implements ServingOrder: which queued job is served next.
#include "server/scheduler/serving_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace comera::server {

ServingOrder::ServingOrder(const ClusterSnapshot& snapshot)
    : snapshot_(snapshot), queues_(snapshot.queues.size()) {
  // Users first, so that pointers to them stay.
  std::vector<std::pair<int32_t, int32_t>> members;
  members.reserve(snapshot.jobs.size() + snapshot.running.size());
  for (const PendingJob& job : snapshot.jobs) {
    members.push_back({job.queue, job.user});
  }
  for (const RunningJob& job : snapshot.running) {
    members.push_back({job.queue, job.user});
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  for (const auto& [queue, user] : members) {
    queues_[queue].users.push_back({user, User()});
  }
  for (const RunningJob& job : snapshot.running) {
    queues_[job.queue].processes += job.processes;
    UserOf(job.queue, job.user).processes += job.processes;
  }
  for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
    const PendingJob& job = snapshot.jobs[i];
    UserOf(job.queue, job.user).jobs.push_back(static_cast<int32_t>(i));
  }
  const auto before = [&](int32_t a, int32_t b) {
    const PendingJob& x = snapshot.jobs[a];
    const PendingJob& y = snapshot.jobs[b];
    if (x.resizing != y.resizing) return x.resizing;
    if (x.priority != y.priority) return x.priority > y.priority;
    return x.serial < y.serial;
  };
  for (size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = queues_[i];
    for (auto& [number, user] : queue.users) {
      if (user.jobs.empty()) continue;
      // Mostly they come in order.
      if (!std::is_sorted(user.jobs.begin(), user.jobs.end(), before)) {
        std::sort(user.jobs.begin(), user.jobs.end(), before);
      }
      queue.heap.push_back(&user);
    }
    if (queue.heap.empty()) continue;
    std::make_heap(
        queue.heap.begin(), queue.heap.end(),
        [this](const User* a, const User* b) { return UserAfter(a, b); });
    heap_.push_back(static_cast<int32_t>(i));
  }
  std::make_heap(heap_.begin(), heap_.end(),
                 [this](int32_t a, int32_t b) { return QueueAfter(a, b); });
}

ServingOrder::User& ServingOrder::UserOf(int32_t queue, int32_t user) {
  return const_cast<User&>(
      static_cast<const ServingOrder*>(this)->UserOf(queue, user));
}

const ServingOrder::User& ServingOrder::UserOf(int32_t queue,
                                               int32_t user) const {
  const auto& users = queues_[queue].users;
  return std::lower_bound(users.begin(), users.end(), user,
                          [](const auto& entry, int32_t number) {
                            return entry.first < number;
                          })
      ->second;
}

int ServingOrder::Compare(const PendingJob& a, const PendingJob& b) const {
  if (a.priority != b.priority) return a.priority > b.priority ? -1 : 1;
  const bool late_a = HasLostPatience(a), late_b = HasLostPatience(b);
  if (late_a != late_b) return late_a ? -1 : 1;
  if (late_a) return a.serial < b.serial ? -1 : 1;
  return 0;
}

bool ServingOrder::UserAfter(const User* a, const User* b) const {
  const PendingJob& x = snapshot_.jobs[a->head()];
  const PendingJob& y = snapshot_.jobs[b->head()];
  if (x.resizing != y.resizing) return y.resizing;
  if (const int order = Compare(x, y); order != 0) return order > 0;
  if (a->processes != b->processes) return a->processes > b->processes;
  return x.serial > y.serial;
}

bool ServingOrder::QueueAfter(int32_t a, int32_t b) const {
  const PendingJob& x = snapshot_.jobs[queues_[a].heap.front()->head()];
  const PendingJob& y = snapshot_.jobs[queues_[b].heap.front()->head()];
  if (x.resizing != y.resizing) return y.resizing;
  const bool owed_x = IsOwed(a, x.min_processes());
  const bool owed_y = IsOwed(b, y.min_processes());
  if (owed_x != owed_y) return owed_y;
  if (const int order = Compare(x, y); order != 0) return order > 0;
  const double share_x = Share(a), share_y = Share(b);
  if (share_x != share_y) return share_x > share_y;
  return x.serial > y.serial;
}

void ServingOrder::PutBack() {
  if (open_queue_ < 0) return;
  Queue& queue = queues_[open_queue_];
  if (open_user_->next < open_user_->jobs.size()) {
    queue.heap.push_back(open_user_);
    std::push_heap(
        queue.heap.begin(), queue.heap.end(),
        [this](const User* a, const User* b) { return UserAfter(a, b); });
  }
  if (!queue.heap.empty()) {
    heap_.push_back(open_queue_);
    std::push_heap(heap_.begin(), heap_.end(),
                   [this](int32_t a, int32_t b) { return QueueAfter(a, b); });
  }
  open_queue_ = -1;
}

int32_t ServingOrder::Next() {
  PutBack();
  if (heap_.empty()) return -1;
  std::pop_heap(heap_.begin(), heap_.end(),
                [this](int32_t a, int32_t b) { return QueueAfter(a, b); });
  open_queue_ = heap_.back();
  heap_.pop_back();
  Queue& queue = queues_[open_queue_];
  std::pop_heap(
      queue.heap.begin(), queue.heap.end(),
      [this](const User* a, const User* b) { return UserAfter(a, b); });
  open_user_ = queue.heap.back();
  queue.heap.pop_back();
  return open_user_->jobs[open_user_->next++];
}

void ServingOrder::Placed(int32_t job, int32_t processes) {
  const PendingJob& placed = snapshot_.jobs[job];
  queues_[placed.queue].processes += processes;
  UserOf(placed.queue, placed.user).processes += processes;
}

std::string ServingOrder::Why(int32_t first, int32_t second) const {
  const PendingJob& a = snapshot_.jobs[first];
  const PendingJob& b = snapshot_.jobs[second];
  if (a.resizing != b.resizing) return "is being resized";
  if (a.queue != b.queue && IsOwed(a.queue, a.min_processes()) &&
      !IsOwed(b.queue, b.min_processes())) {
    return "its queue is below its guarantee";
  }
  if (a.priority != b.priority) return "higher priority";
  if (HasLostPatience(a) && !HasLostPatience(b)) return "has waited for long";
  if (a.queue != b.queue && Share(a.queue) != Share(b.queue)) {
    return "its queue uses less of its share";
  }
  if (a.queue == b.queue && a.user != b.user &&
      UserOf(a.queue, a.user).processes != UserOf(b.queue, b.user).processes) {
    return "its user has fewer processes";
  }
  return "was submitted before";
}

}  // namespace comera::server
