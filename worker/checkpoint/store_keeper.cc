// Uploads to, deletes from and lists the shared store on a thread of its own.

#include "worker/checkpoint/store_keeper.h"

#include <algorithm>
#include <vector>

#include "common/log.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/checkpoint/checkpoint_file.h"

namespace comera::worker {
namespace {

constexpr int64_t kStatesOfAPage = 1000;

}  // namespace

StoreKeeper::StoreKeeper(const Options& options, ArtifactStore* store)
    : options_(options), store_(store), thread_([this] { Loop(); }) {}

StoreKeeper::~StoreKeeper() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    abandoned_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void StoreKeeper::Add(Task task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  delayed_.erase(task.job);
  const std::string job = task.job;
  waiting_[job] = std::move(task);
  changed_.notify_all();
}

void StoreKeeper::Expire(const std::string& job, const StateKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  expired_.emplace(job, key);
  changed_.notify_all();
}

void StoreKeeper::Forget(const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.erase(job);
  delayed_.erase(job);
  changed_.notify_all();
}

bool StoreKeeper::Flush(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout),
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                             return !busy_ && waiting_.empty() &&
                                    expired_.empty();
                           });
}

absl::Time StoreKeeper::NextDue() const {
  absl::Time next = std::min(next_listing_, next_tidying_);
  for (const auto& [job, delayed] : delayed_) {
    next = std::min(next, delayed.due);
  }
  return next;
}

void StoreKeeper::WakeDelayed() {
  const absl::Time now = SteadyNow();
  for (auto it = delayed_.begin(); it != delayed_.end();) {
    if (it->second.due > now) {
      ++it;
      continue;
    }
    waiting_.emplace(it->first, std::move(it->second.task));
    it = delayed_.erase(it);
  }
}

void StoreKeeper::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::string last;
  while (true) {
    busy_ = false;
    changed_.notify_all();
    WakeDelayed();
    while (!ending_ && waiting_.empty() && expired_.empty() &&
           NextDue() > SteadyNow()) {
      changed_.wait_for(lock,
                        absl::ToChronoMilliseconds(NextDue() - SteadyNow() +
                                                   absl::Milliseconds(1)));
      WakeDelayed();
    }
    if (ending_) return;
    busy_ = true;
    if (!expired_.empty()) {
      const auto [job, key] = *expired_.begin();
      expired_.erase(expired_.begin());
      lock.unlock();
      Delete(job, key);
      lock.lock();
    } else if (next_listing_ <= SteadyNow()) {
      lock.unlock();
      const absl::Duration pause = List();
      lock.lock();
      next_listing_ = SteadyNow() + pause;
    } else if (next_tidying_ <= SteadyNow()) {
      lock.unlock();
      Tidy();
      lock.lock();
      next_tidying_ = SteadyNow() + options_.tidy;
    } else if (!waiting_.empty()) {
      // Jobs take turns.
      auto next = waiting_.upper_bound(last);
      if (next == waiting_.end()) next = waiting_.begin();
      const Task task = std::move(next->second);
      waiting_.erase(next);
      last = task.job;
      lock.unlock();
      Copy(task);
      lock.lock();
    }
  }
}

absl::Duration StoreKeeper::List() {
  absl::StatusOr<StoredStates> states = ListAllStored(store_, abandoned_);
  if (!states.ok()) {
    LOG(WARNING) << "checkpoint store not listed " << states.status();
    return options_.relist_after_failure;
  }
  int64_t count = 0;
  for (const auto& [job, keys] : *states) {
    count += static_cast<int64_t>(keys.size());
  }
  if (options_.on_listed) options_.on_listed(*std::move(states));
  return std::min(options_.relist * (1 + count / kStatesOfAPage),
                  options_.relist_most);
}

void StoreKeeper::Tidy() {
  const absl::Status tidied =
      TidyStored(store_, options_.leftovers_age, abandoned_);
  LOG_IF(WARNING, !tidied.ok() && !abandoned_)
      << "checkpoint store not tidied " << tidied;
}

void StoreKeeper::Delete(const std::string& job, const StateKey& key) {
  CheckpointName name;
  name.step = key.step;
  name.attempt = key.attempt;
  const absl::Status status =
      store_->Delete(StoredCheckpointPath(job, name), abandoned_);
  // The next listing finds what is still there.
  LOG_IF(WARNING, !status.ok())
      << "checkpoint not deleted from the store job=" << job
      << " attempt=" << key.attempt << " step=" << key.step << " " << status;
}

absl::Status StoreKeeper::Store(const Task& task, const CheckpointFile& file) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names,
                   ListStored(store_, task.job, abandoned_));
  for (const CheckpointName& name : names) {
    if (options_.on_found) {
      options_.on_found(task.job, name.key());
    }
    if (name.attempt > task.name.attempt) {
      return absl::AbortedError("there is a state of a later attempt");
    }
  }
  // The very file that was verified, whatever has its name by now.
  return store_->PutFile(StoredCheckpointPath(task.job, task.name),
                         file.contents(), abandoned_);
}

void StoreKeeper::Copy(const Task& task) {
  const absl::StatusOr<CheckpointFile> file = CheckpointFile::Open(task.path);
  // The trainer may have deleted it by now to make room for a newer one.
  if (!file.ok() || !file->Verify().ok()) return;
  const absl::Status status = Store(task, *file);
  if (absl::IsAborted(status)) {
    LOG_IF(WARNING, !abandoned_) << "checkpoint not durable job=" << task.job
                                 << " attempt=" << task.name.attempt
                                 << " step=" << task.name.step << " " << status;
    return;
  }
  if (!status.ok() && !CheckpointFile::Open(task.path).ok()) return;
  LOG_IF(WARNING, !status.ok()) << "checkpoint not durable job=" << task.job
                                << " attempt=" << task.name.attempt
                                << " step=" << task.name.step << " " << status;
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.count(task.job) == 0) {
      delayed_[task.job] = {task, SteadyNow() + options_.retry_after};
    }
  }
  if (options_.on_tried) options_.on_tried(task, file->size(), status);
}

}  // namespace comera::worker
