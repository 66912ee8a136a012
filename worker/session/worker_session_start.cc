// Prepares a member's start: fetches the checkpoint from which its job begins
// or resumes, and checks the paths of its data.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/state_copy.h"
#include "worker/files/open_folder.h"
#include "worker/gang/member_failure.h"
#include "worker/session/worker_session.h"

namespace comera::worker {

bool WorkerSession::Prepare(const MemberTable::Actions::Start& start) {
  const v1::MemberAssignment& rank = start.assignment;
  // Member 0 shares the training state with the others.
  if (rank.rank() != 0 || !(rank.resume() || rank.spec().has_start_from())) {
    return false;
  }
  // Runs on a thread of its own, because peers that do not answer must not keep
  // this worker from reporting.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.Preparing(start.id);
  }
  const GangMembers::Id id = start.id;
  preparer_->Begin(start, [this, id, rank](const std::atomic<bool>& abandoned) {
    // A state of its own holds all that it needs.
    if (!rank.start_job().empty()) {
      RETURN_IF_ERROR(FetchOthersState(id, rank, abandoned));
    } else if (rank.spec().has_start_from() &&
               !(rank.resume() && rank.has_start())) {
      RETURN_IF_ERROR(FetchStart(
          options_.start_fetch, channel_, rank.spec().start_from().checkpoint(),
          folders_.Start(rank.job()), abandoned, [this, id](int64_t bytes) {
            OnPreparationMoved(id, bytes, 0, "the coordinator");
          }));
    }
    if (!rank.resume() || abandoned) return absl::OkStatus();
    return FetchCheckpoint(id, rank, abandoned);
  });
  return true;
}

absl::Status WorkerSession::FetchOthersState(
    GangMembers::Id id, const v1::MemberAssignment& rank,
    const std::atomic<bool>& abandoned) {
  const PathBelow path = folders_.Start(rank.job());
  const absl::StatusOr<OpenFolder> work = OpenFolder::Open(path.Parent());
  if (work.ok() && work->SizeOf(path.Name())) return absl::OkStatus();
  // It may lie on this disk already.
  const PathBelow folder = folders_.Checkpoints(rank.start_job());
  v1::MemberAssignment others = rank;
  others.set_job(rank.start_job());
  RETURN_IF_ERROR(FetchCheckpoint(id, others, abandoned));
  const StateKey key = {rank.start().attempt(), rank.start().step()};
  for (const CheckpointName& name : NamesOf(key, ListCheckpointFiles(folder))) {
    const absl::StatusOr<CheckpointFile> file =
        CheckpointFile::Open(folder.Child(ToFileName(name)));
    const absl::Status copied =
        file.ok() ? CopyState(*file, path, abandoned) : file.status();
    // It may be gone, or replaced, since it was fetched.
    if (file.ok() && !absl::IsDataLoss(copied)) return copied;
    LOG(WARNING) << "checkpoint passed over job=" << rank.start_job()
                 << " step=" << key.step << " " << copied;
  }
  // Its own job may have replaced it by a newer one meanwhile.
  return WithFailureClass(
      absl::NotFoundError(absl::StrCat("the training state of step ", key.step,
                                       " of ", rank.start_job(),
                                       " is no longer kept")),
      v1::CHECKPOINT_UNREACHABLE);
}

void WorkerSession::AskToFinish(const v1::MemberAssignment& rank) const {
  const absl::StatusOr<OpenFolder> work =
      OpenFolder::Open(folders_.Work(rank.job()));
  // A member that has not begun here has nothing to leave.
  if (absl::IsNotFound(work.status())) return;
  const absl::Status status =
      work.ok() ? work->MakeFile(FinishFile(rank.attempt())) : work.status();
  LOG_IF(WARNING, !status.ok()) << "job=" << rank.job() << " " << status;
}

// Looks at files on a thread of its own, because a server of files that does
// not answer must not keep this worker from reporting.
void WorkerSession::CheckAndStart(const MemberTable::Actions::Start& start) {
  const v1::MemberAssignment& rank = start.assignment;
  if (!DataRoots::Concerns(rank.spec())) {
    StartOrFail(start);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.Preparing(start.id);
  }
  checker_->Begin(start, [this, rank](const std::atomic<bool>&) {
    return options_.data_roots.Check(rank.spec(), rank.datasets());
  });
}

void WorkerSession::StartPrepared() {
  for (const MemberPreparer::Done& done : preparer_->PopFinished()) {
    if (done.status.ok()) {
      CheckAndStart(done.start);
      continue;
    }
    LOG(ERROR) << "member not started job=" << done.start.assignment.job()
               << " attempt=" << done.start.assignment.attempt()
               << " rank=" << done.start.assignment.rank() << " "
               << done.status;
    fetcher_->Release(done.start.id);
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.FetchFailed(done.start.id, done.status, absl::Now());
    Notify();
  }
  for (const MemberPreparer::Done& done : checker_->PopFinished()) {
    if (done.status.ok()) {
      StartOrFail(done.start);
    } else {
      FailStart(done.start, done.status);
    }
  }
}

bool WorkerSession::AbandonPreparation(GangMembers::Id id) {
  if (!preparer_->Abandon(id) && !checker_->Abandon(id)) return false;
  fetcher_->Release(id);
  const std::lock_guard<std::mutex> lock(mutex_);
  table_.FetchFailed(id, absl::CancelledError("not wanted"), absl::Now());
  Notify();
  return true;
}

}  // namespace comera::worker
