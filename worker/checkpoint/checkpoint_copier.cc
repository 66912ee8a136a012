// Copies saved training states to peers on a thread of its own, and passes
// those for the store on.

#include "worker/checkpoint/checkpoint_copier.h"

#include <utility>

#include "common/log.h"
#include "common/steady_time.h"
#include "worker/checkpoint/checkpoint_file.h"

namespace comera::worker {

CheckpointCopier::CheckpointCopier(const Options& options, PeerClient* peers,
                                   ArtifactStore* store)
    : options_(options), peers_(peers) {
  if (store != nullptr) {
    StoreKeeper::Options keeper = options_.store;
    keeper.on_tried = [this](const StoreKeeper::Task& task, int64_t bytes,
                             const absl::Status& status) {
      OnStoreTried(task, bytes, status);
    };
    keeper_ = std::make_unique<StoreKeeper>(keeper, store);
  }
  thread_ = std::thread([this] { Loop(); });
}

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
  if (task.durable && keeper_ != nullptr) {
    keeper_->Add({task.job, task.name, task.path});
  }
  if (task.replicas.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string job = task.job;
  copies_[job] = std::move(task);
  changed_.notify_all();
}

std::vector<v1::MemberTrouble> CheckpointCopier::Troubles() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return troubles_.List();
}

void CheckpointCopier::Expire(const std::string& job, const StateKey& key) {
  if (keeper_ != nullptr) keeper_->Expire(job, key);
}

void CheckpointCopier::Forget(const std::string& job) {
  if (keeper_ != nullptr) keeper_->Forget(job);
  const std::lock_guard<std::mutex> lock(mutex_);
  copies_.erase(job);
  troubles_.Forget(job);
  changed_.notify_all();
}

bool CheckpointCopier::Flush(absl::Duration timeout) {
  const absl::Time end = SteadyNow() + timeout;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout),
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                             return !busy_ && copies_.empty();
                           })) {
      return false;
    }
  }
  return keeper_ == nullptr || keeper_->Flush(end - SteadyNow());
}

void CheckpointCopier::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::string last;
  while (true) {
    busy_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ending_ || !copies_.empty();
    });
    if (ending_) return;
    busy_ = true;
    // Jobs take turns, because while a peer cannot be reached, copies never run
    // out.
    auto next = copies_.upper_bound(last);
    if (next == copies_.end()) next = copies_.begin();
    const Task task = std::move(next->second);
    copies_.erase(next);
    last = task.job;
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
  TransferLimits limits;
  limits.idle = options_.idle;
  limits.abandoned = &abandoned_;
  std::vector<CopyTroubles::ReplicaResult> results;
  for (const v1::Peer& peer : task.replicas) {
    const absl::Status status =
        peers_->Put(peer.address(), task.job, task.name, *file, sha256, limits);
    ReportCopy(/*to_store=*/false, file->size(), status);
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

void CheckpointCopier::OnStoreTried(const StoreKeeper::Task& task,
                                    int64_t bytes, const absl::Status& status) {
  ReportCopy(/*to_store=*/true, bytes, status);
  bool changed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed = troubles_.OnStore(task.job, task.name.attempt, status);
  }
  ReportTroubles(changed);
  if (status.ok() && options_.on_stored) {
    options_.on_stored(task.job, task.name.key());
  }
}

}  // namespace comera::worker
