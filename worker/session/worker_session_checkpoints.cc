// Keeps other workers' copies of this one's checkpoints, and fetches the
// checkpoint that a member resumes from.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "worker/checkpoint/byte_text.h"
#include "worker/checkpoint/checkpoint_fetcher.h"
#include "worker/checkpoint/stored_checkpoints.h"
#include "worker/gang/member_failure.h"
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
  copies.on_troubles = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    Notify();
  };
  copies.on_stored = [this](const std::string& job, const StateKey& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (shelf_.AddStored(job, key)) Notify();
  };
  copies.store.on_found = copies.on_stored;
  copies.store.on_listed = [this](StoredStates states) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (shelf_.SetStored(std::move(states))) Notify();
  };
  copier_ = std::make_unique<CheckpointCopier>(copies, &peers_,
                                               options_.checkpoint_store.get());
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
  if (!rank || rank->rank() != 0 || saved.step() < 0 ||
      saved.step() > kMaxNamed) {
    return;
  }
  shelf_.Scan(rank->job());
  v1::MemberKey key;
  key.set_job(rank->job());
  key.set_attempt(rank->attempt());
  CheckpointCopier::Task task;
  task.job = rank->job();
  task.name = {saved.step(), saved.snapshot(), rank->attempt()};
  task.path = folders_.Checkpoints(task.job).Child(ToFileName(task.name));
  task.replicas = table_.Replicas(key);
  task.durable = !saved.snapshot() && rank->spec().checkpoint().durable();
  copier_->Add(std::move(task));
}

void WorkerSession::ExpireStored(const v1::SynchronizeResponse& response) {
  for (const v1::HeldCheckpoint& held : response.expired()) {
    if (!ParseJobName(held.job()) || held.attempt() < 0 ||
        held.attempt() > kMaxNamed || held.step() < 0 ||
        held.step() > kMaxNamed) {
      LOG(ERROR) << "refused to delete " << held.ShortDebugString();
      continue;
    }
    const StateKey key = {held.attempt(), held.step()};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      shelf_.DropStored(held.job(), key);
    }
    copier_->Expire(held.job(), key);
  }
}

void WorkerSession::FillTroubles(v1::SynchronizeRequest* request) {
  for (v1::MemberTrouble& trouble : copier_->Troubles()) {
    v1::MemberKey key;
    key.set_job(trouble.job());
    key.set_attempt(trouble.attempt());
    // What an attempt could not copy concerns nobody once it has ended.
    if (table_.IsAlive(key)) *request->add_troubles() = std::move(trouble);
  }
}

void WorkerSession::OnPreparationMoved(GangMembers::Id id, int64_t bytes,
                                       int64_t size,
                                       const std::string& source) {
  const std::string activity = absl::StrCat(
      "fetching the training state, ", BytesText(bytes),
      size > 0 ? absl::StrCat(" of ", BytesText(size)) : "", ", from ", source);
  const std::lock_guard<std::mutex> lock(mutex_);
  table_.PreparationMoved(id, activity);
}

absl::Status WorkerSession::FetchCheckpoint(
    GangMembers::Id id, const v1::MemberAssignment& rank,
    const std::atomic<bool>& abandoned) {
  const auto on_progress = [this, id](int64_t bytes, int64_t size,
                                      const std::string& source) {
    OnPreparationMoved(id, bytes, size, source);
  };
  const CheckpointFetcher fetcher(
      options_.state_fetch, folders_.Checkpoints(rank.job()), &replicas_,
      &peers_, options_.checkpoint_store.get(), on_progress);
  const absl::StatusOr<FetchedCheckpoint> found =
      rank.has_start() ? fetcher.FetchStart(rank, abandoned)
                       : fetcher.FetchNewest(rank, abandoned);
  if (absl::IsNotFound(found.status())) {
    return WithFailureClass(found.status(), v1::CHECKPOINT_UNREACHABLE);
  }
  if (absl::IsDataLoss(found.status())) {
    return WithFailureClass(found.status(), v1::CHECKPOINT_DAMAGED);
  }
  RETURN_IF_ERROR(found.status());
  LOG(INFO) << "goes on job=" << rank.job() << " attempt=" << rank.attempt()
            << " step=" << found->step << " saved_by=" << rank.start().attempt()
            << " from=\"" << found->from << "\"";
  const std::lock_guard<std::mutex> lock(mutex_);
  shelf_.Scan(rank.job());
  Notify();
  return absl::OkStatus();
}

}  // namespace comera::worker
