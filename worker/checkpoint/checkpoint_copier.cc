// Copies saved training states to peers and to the store on a thread of its
// own.

#include "worker/checkpoint/checkpoint_copier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"

namespace comera::worker {

std::string StoredCheckpointsFolder(const std::string& job) {
  return absl::StrCat("checkpoints/", job.substr(job.rfind('/') + 1));
}

CheckpointCopier::CheckpointCopier(const Options& options, PeerClient* peers,
                                   ArtifactStore* store, OnDurable on_durable)
    : options_(options),
      peers_(peers),
      store_(store),
      on_durable_(std::move(on_durable)),
      thread_([this] { Loop(); }) {}

CheckpointCopier::~CheckpointCopier() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CheckpointCopier::Add(Task task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (task.durable && store_ != nullptr) durable_[task.job] = task;
  if (!task.replicas.empty()) copies_[task.job] = std::move(task);
  changed_.notify_all();
}

void CheckpointCopier::Forget(const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  durable_.erase(job);
  copies_.erase(job);
  changed_.notify_all();
}

bool CheckpointCopier::Flush(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout), [this] {
    return !busy_ && durable_.empty() && copies_.empty();
  });
}

void CheckpointCopier::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  // Whether the previous task was a copy to a peer.
  bool was_copy = false;
  std::string last;
  while (true) {
    busy_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] {
      return ending_ || !durable_.empty() || !copies_.empty();
    });
    if (ending_) return;
    busy_ = true;
    // Copies to memory come first: they are what the replacement of a lost
    // machine asks for within seconds. But the two queues take turns, and so do
    // the jobs, because while a peer cannot be reached, copies never run out.
    auto& queue =
        copies_.empty() || (was_copy && !durable_.empty()) ? durable_ : copies_;
    was_copy = &queue == &copies_;
    auto next = queue.upper_bound(last);
    if (next == queue.end()) next = queue.begin();
    Task task = std::move(next->second);
    queue.erase(next);
    last = task.job;
    if (&queue == &copies_) {
      task.durable = false;
    } else {
      task.replicas.clear();
    }
    lock.unlock();
    Copy(task);
    lock.lock();
  }
}

void CheckpointCopier::ReportCopy(bool to_store, size_t bytes,
                                  const absl::Status& status) {
  if (options_.on_copy == nullptr) return;
  options_.on_copy(to_store, static_cast<int64_t>(bytes), status.ok());
}

void CheckpointCopier::Copy(const Task& task) {
  const absl::StatusOr<std::string> contents = ReadFile(task.path);
  // The trainer may have deleted it by now to make room for a newer one.
  if (!contents.ok() || !IsWhole(*contents)) return;
  for (const std::string& address : task.replicas) {
    const absl::Status status =
        peers_->Put(address, task.job, task.name, *contents, options_.timeout);
    ReportCopy(/*to_store=*/false, contents->size(), status);
    LOG_IF(WARNING, !status.ok())
        << "checkpoint not copied job=" << task.job
        << " step=" << task.name.step << " to=" << address << " " << status;
  }
  if (!task.durable) return;
  const std::string folder = StoredCheckpointsFolder(task.job);
  const absl::Status status =
      store_->Put(absl::StrCat(folder, "/", ToFileName(task.name)), *contents);
  ReportCopy(/*to_store=*/true, contents->size(), status);
  if (!status.ok()) {
    LOG(WARNING) << "checkpoint not durable job=" << task.job
                 << " step=" << task.name.step << " " << status;
    return;
  }
  on_durable_(task);
  const auto names = store_->List(folder);
  if (!names.ok()) return;
  const size_t keep = std::max(2, task.keep);
  for (size_t i = 0; i + keep < names->size(); ++i) {
    (void)store_->Delete(absl::StrCat(folder, "/", (*names)[i]));
  }
}

}  // namespace comera::worker
