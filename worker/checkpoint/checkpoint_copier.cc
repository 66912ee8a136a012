// Copies saved training states to peers and to the store on a thread of its
// own.

#include "worker/checkpoint/checkpoint_copier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "worker/checkpoint/stored_checkpoints.h"

namespace comera::worker {

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
    abandoned_ = true;
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

std::vector<v1::MemberTrouble> CheckpointCopier::Troubles() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return troubles_.List();
}

void CheckpointCopier::Forget(const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  durable_.erase(job);
  copies_.erase(job);
  troubles_.Forget(job);
  changed_.notify_all();
}

bool CheckpointCopier::Flush(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout), [this] {
    return !busy_ && durable_.empty() && copies_.empty();
  });
}

void CheckpointCopier::FindStored() {
  if (store_ == nullptr) return;
  const auto found = ListNewestStored(store_);
  if (!found.ok()) {
    LOG(WARNING) << "checkpoint store " << found.status();
    return;
  }
  for (const StoredCheckpoint& stored : *found) {
    // The coordinator refuses a report with other names.
    if (!ParseJobName(stored.job)) continue;
    Task task;
    task.job = stored.job;
    task.name = stored.name;
    on_durable_(task);
  }
}

void CheckpointCopier::Loop() {
  // Others may have stored them, on machines that are gone by now.
  FindStored();
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

void CheckpointCopier::ReportCopy(bool to_store, int64_t bytes,
                                  const absl::Status& status) {
  if (options_.on_copy == nullptr) return;
  options_.on_copy(to_store, bytes, status.ok());
}

void CheckpointCopier::ReportTroubles(bool changed) {
  if (changed && options_.on_troubles != nullptr) options_.on_troubles();
}

void CheckpointCopier::Copy(const Task& task) {
  const absl::StatusOr<CheckpointFile> file = CheckpointFile::Open(task.path);
  // The trainer may have deleted it by now to make room for a newer one.
  if (!file.ok()) return;
  std::string sha256;
  if (!file->Verify(&sha256).ok()) return;
  if (!task.replicas.empty()) CopyToReplicas(task, *file, sha256);
  if (task.durable) CopyToStore(task, file->size());
}

void CheckpointCopier::CopyToReplicas(const Task& task,
                                      const CheckpointFile& file,
                                      const std::string& sha256) {
  TransferLimits limits;
  limits.idle = options_.idle;
  limits.abandoned = &abandoned_;
  std::vector<CopyTroubles::ReplicaResult> results;
  for (const v1::Peer& peer : task.replicas) {
    const absl::Status status =
        peers_->Put(peer.address(), task.job, task.name, file, sha256, limits);
    ReportCopy(/*to_store=*/false, file.size(), status);
    LOG_IF(WARNING, !status.ok())
        << "checkpoint not copied job=" << task.job
        << " attempt=" << task.name.attempt << " step=" << task.name.step
        << " to=" << peer.worker() << " " << status;
    results.push_back({peer.worker(), status});
  }
  bool changed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed = troubles_.OnReplicas(task.job, task.name.attempt, results);
  }
  ReportTroubles(changed);
}

absl::Status CheckpointCopier::Store(const Task& task,
                                     const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, store_->List(folder));
  for (const std::string& file : files) {
    const auto name = ParseCheckpointName(file);
    if (name && name->attempt > task.name.attempt) {
      return absl::AbortedError("there is a state of a later attempt");
    }
  }
  return store_->PutFile(absl::StrCat(folder, "/", ToFileName(task.name)),
                         task.path);
}

void CheckpointCopier::CopyToStore(const Task& task, int64_t size) {
  const std::string folder = StoredCheckpointsFolder(task.job);
  const absl::Status status = Store(task, folder);
  // The trainer has deleted it meanwhile to make room for a newer one.
  if (absl::IsNotFound(status) && !CheckpointFile::Open(task.path).ok()) return;
  ReportCopy(/*to_store=*/true, size, status);
  LOG_IF(WARNING, !status.ok()) << "checkpoint not durable job=" << task.job
                                << " attempt=" << task.name.attempt
                                << " step=" << task.name.step << " " << status;
  if (absl::IsAborted(status)) return;
  bool changed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed = troubles_.OnStore(task.job, task.name.attempt, status);
  }
  ReportTroubles(changed);
  if (!status.ok()) return;
  on_durable_(task);
  Prune(task, folder);
}

void CheckpointCopier::Prune(const Task& task, const std::string& folder) {
  const auto files = store_->List(folder);
  if (!files.ok()) return;
  std::vector<CheckpointName> names;
  for (const std::string& file : *files) {
    if (const auto name = ParseCheckpointName(file)) names.push_back(*name);
  }
  std::sort(names.begin(), names.end(), IsOlder);
  const size_t keep = static_cast<size_t>(std::max(2, task.keep));
  for (size_t i = 0; i + keep < names.size(); ++i) {
    (void)store_->Delete(absl::StrCat(folder, "/", ToFileName(names[i])));
  }
}

}  // namespace comera::worker
