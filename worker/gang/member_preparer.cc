// Runs the preparations of members on threads and collects those that have
// ended.

#include "worker/gang/member_preparer.h"

#include <utility>

namespace comera::worker {

MemberPreparer::MemberPreparer(std::function<void()> on_done)
    : on_done_(std::move(on_done)) {}

MemberPreparer::~MemberPreparer() {
  std::vector<std::unique_ptr<Task>> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [id, task] : tasks_) all.push_back(std::move(task));
    for (auto& task : leaving_) all.push_back(std::move(task));
    tasks_.clear();
    leaving_.clear();
  }
  for (auto& task : all) task->abandoned = true;
  for (auto& task : all) task->thread.join();
}

void MemberPreparer::Begin(const Start& start, Work work) {
  auto task = std::make_unique<Task>();
  task->start = start;
  Task* const raw = task.get();
  const std::lock_guard<std::mutex> lock(mutex_);
  // Started under the lock, so that the thread finds its task in the table.
  task->thread = std::thread([this, raw, work = std::move(work)] {
    const absl::Status status = work(raw->abandoned);
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      raw->status = status;
      raw->ended = true;
      if (raw->abandoned) return;
    }
    on_done_();
  });
  tasks_[start.id] = std::move(task);
}

bool MemberPreparer::Abandon(GangMembers::Id id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) return false;
  it->second->abandoned = true;
  leaving_.push_back(std::move(it->second));
  tasks_.erase(it);
  return true;
}

std::vector<MemberPreparer::Done> MemberPreparer::PopFinished() {
  std::vector<Done> done;
  std::vector<std::unique_ptr<Task>> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = tasks_.begin(); it != tasks_.end();) {
      if (!it->second->ended) {
        ++it;
        continue;
      }
      done.push_back({it->second->start, it->second->status});
      ended.push_back(std::move(it->second));
      it = tasks_.erase(it);
    }
    for (auto it = leaving_.begin(); it != leaving_.end();) {
      if (!(*it)->ended) {
        ++it;
        continue;
      }
      ended.push_back(std::move(*it));
      it = leaving_.erase(it);
    }
  }
  for (auto& task : ended) task->thread.join();
  return done;
}

}  // namespace comera::worker
