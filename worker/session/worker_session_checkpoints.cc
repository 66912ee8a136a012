// Keeps other workers' copies of this one's checkpoints, and fetches the
// checkpoint that a member resumes from.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/checkpoint/checkpoint_fetcher.h"
#include "worker/session/worker_session.h"

namespace comera::worker {

void WorkerSession::StartPeers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    shelf_.ScanAll();
  }
  CheckpointCopier::Options copies;
  if (options_.metrics != nullptr) {
    copies.on_copy = [metrics = options_.metrics](bool to_store, int64_t bytes,
                                                  bool ok) {
      metrics->OnCheckpointCopy(to_store ? WorkerMetrics::CopyTarget::kStore
                                         : WorkerMetrics::CopyTarget::kReplica,
                                bytes, ok);
    };
  }
  copier_ = std::make_unique<CheckpointCopier>(
      copies, &peers_, store_.get(),
      [this](const CheckpointCopier::Task& task) {
        const std::lock_guard<std::mutex> lock(mutex_);
        shelf_.MarkStored(task.job, task.name.step, task.keep);
        Notify();
      });
  if (options_.replica_memory == 0) return;
  absl::StatusOr<std::unique_ptr<PeerServer>> server =
      PeerServer::Start(options_.peers, &replicas_, &folders_, &peer_keys_);
  if (server.ok()) {
    peer_server_ = *std::move(server);
  } else {
    LOG(WARNING) << "no copies of checkpoints are kept here "
                 << server.status();
  }
}

void WorkerSession::CopyCheckpoint(GangMembers::Id id,
                                   const v1::CheckpointSaved& saved) {
  const std::optional<v1::MemberAssignment> rank = table_.Assignment(id);
  if (!rank || rank->rank() != 0 || saved.step() < 0) return;
  shelf_.Scan(rank->job());
  v1::MemberKey key;
  key.set_job(rank->job());
  key.set_attempt(rank->attempt());
  CheckpointCopier::Task task;
  task.job = rank->job();
  task.name = {saved.step(), saved.snapshot()};
  task.path =
      absl::StrCat(folders_.Checkpoints(task.job), "/", ToFileName(task.name));
  task.replicas = table_.Replicas(key);
  task.durable = !saved.snapshot() && rank->spec().checkpoint().durable();
  task.keep = rank->spec().checkpoint().keep();
  copier_->Add(std::move(task));
}

void WorkerSession::FetchCheckpoint(const v1::MemberAssignment& rank) {
  if (!rank.resume() || rank.rank() != 0) return;
  const FetchedCheckpoint found = FetchNewestCheckpoint(
      rank, folders_.Checkpoints(rank.job()), options_.fetch_timeout, replicas_,
      &peers_, store_.get());
  LOG(INFO) << "goes on job=" << rank.job() << " attempt=" << rank.attempt()
            << " step=" << found.step << " from=\"" << found.from << "\"";
}

}  // namespace comera::worker
