// Implements ServingTier: a heap of queues, and in each a heap of users.
#include "server/scheduler/serving_tier.h"

#include <algorithm>

namespace comera::server {

ServingTier::ServingTier(const ClusterSnapshot& snapshot, const QueueUse& use,
                         const std::vector<int32_t>& jobs)
    : snapshot_(snapshot),
      use_(use),
      users_(use.users()),
      queues_(snapshot.queues.size()) {
  for (int32_t job : jobs) users_[use.user(job)].jobs.push_back(job);
  const auto before = [&](int32_t a, int32_t b) {
    const PendingJob& x = snapshot.jobs[a];
    const PendingJob& y = snapshot.jobs[b];
    if (x.resizing != y.resizing) return x.resizing;
    if (x.priority != y.priority) return x.priority > y.priority;
    return x.serial < y.serial;
  };
  for (size_t i = 0; i < users_.size(); ++i) {
    User& user = users_[i];
    if (user.jobs.empty()) continue;
    // Mostly they come in order.
    if (!std::is_sorted(user.jobs.begin(), user.jobs.end(), before)) {
      std::sort(user.jobs.begin(), user.jobs.end(), before);
    }
    const int32_t queue = snapshot.jobs[user.head()].queue;
    if (queues_[queue].empty()) heap_.push_back(queue);
    PushUser(queue, static_cast<int32_t>(i));
  }
  std::make_heap(heap_.begin(), heap_.end(),
                 [this](int32_t a, int32_t b) { return QueueAfter(a, b); });
}

bool ServingTier::UserAfter(int32_t a, int32_t b) const {
  const int32_t i = users_[a].head(), j = users_[b].head();
  const PendingJob& x = snapshot_.jobs[i];
  const PendingJob& y = snapshot_.jobs[j];
  if (x.resizing != y.resizing) return y.resizing;
  if (x.priority != y.priority) return x.priority < y.priority;
  const bool due_x = use_.IsDueInQueue(i), due_y = use_.IsDueInQueue(j);
  if (due_x != due_y) return due_y;
  if (due_x) return x.serial > y.serial;
  const int32_t of_x = use_.user_processes(i), of_y = use_.user_processes(j);
  if (of_x != of_y) return of_x > of_y;
  return x.serial > y.serial;
}

bool ServingTier::QueueAfter(int32_t a, int32_t b) const {
  const int32_t i = users_[queues_[a].front()].head();
  const int32_t j = users_[queues_[b].front()].head();
  const PendingJob& x = snapshot_.jobs[i];
  const PendingJob& y = snapshot_.jobs[j];
  if (x.resizing != y.resizing) return y.resizing;
  if (x.priority != y.priority) return x.priority < y.priority;
  const bool due_x = use_.IsDue(i), due_y = use_.IsDue(j);
  if (due_x != due_y) return due_y;
  if (due_x) return x.serial > y.serial;
  const double share_x = use_.Share(a), share_y = use_.Share(b);
  if (share_x != share_y) return share_x > share_y;
  return x.serial > y.serial;
}

void ServingTier::PushUser(int32_t queue, int32_t user) {
  Heap& heap = queues_[queue];
  heap.push_back(user);
  std::push_heap(heap.begin(), heap.end(),
                 [this](int32_t a, int32_t b) { return UserAfter(a, b); });
}

void ServingTier::PutBack() {
  if (open_queue_ < 0) return;
  if (users_[open_user_].next < users_[open_user_].jobs.size()) {
    PushUser(open_queue_, open_user_);
  }
  if (!queues_[open_queue_].empty()) {
    heap_.push_back(open_queue_);
    std::push_heap(heap_.begin(), heap_.end(),
                   [this](int32_t a, int32_t b) { return QueueAfter(a, b); });
  }
  open_queue_ = -1;
}

int32_t ServingTier::Next() {
  PutBack();
  if (heap_.empty()) return -1;
  std::pop_heap(heap_.begin(), heap_.end(),
                [this](int32_t a, int32_t b) { return QueueAfter(a, b); });
  open_queue_ = heap_.back();
  heap_.pop_back();
  Heap& users = queues_[open_queue_];
  std::pop_heap(users.begin(), users.end(),
                [this](int32_t a, int32_t b) { return UserAfter(a, b); });
  open_user_ = users.back();
  users.pop_back();
  User& user = users_[open_user_];
  return user.jobs[user.next++];
}

}  // namespace comera::server
