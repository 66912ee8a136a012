// The checkpoints that a job's record names.
#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_CHECKPOINTS_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_CHECKPOINTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/training_lineage.h"

namespace comera::server {

// Names a checkpoint that `attempt` has saved on `worker`, where member 0 runs.
// The newest ones, up to the number that the job keeps, and the durable ones
// stay named.
void RecordSaved(const v1::CheckpointSaved& saved, int64_t attempt,
                 const std::string& worker, absl::Time now, v1::Job* job);

// What a worker has of a job by its newest report, and what is in the shared
// store.
struct HeldReport {
  // Empty: only the store is meant.
  std::string worker;
  std::vector<v1::HeldCheckpoint> held;
  // States that were said to be in the shared store, and are not any more.
  std::vector<v1::HeldCheckpoint> no_longer_durable;
  // States of the store that an attempt could not fetch a moment ago. They are
  // not said to be durable, and not forgotten.
  std::vector<v1::HeldCheckpoint> unreachable;
};

// Whether nobody goes on from the job's states any more: it has succeeded, or
// failed or was cancelled at least `keep` ago, or has ended as part of a sweep,
// whose jobs are not resumed.
bool AreStatesOver(const v1::Job& job, absl::Duration keep, absl::Time now);

// Brings the named checkpoints in line with the report. One that nobody holds
// stays named until a newer one is held, or the job's states are `over`
// (AreStatesOver): workers that were restarted do not know at once what they
// and the shared store have. Returns whether anything changed.
bool UpdateHeld(const HeldReport& report, bool over, v1::Job* job);

// Returns those of the worker's states in the shared store that no job needs:
// all if they are `over`, else what is older than the newest of its training,
// of which there are as many as the job keeps. Only states that the job names
// count as such: member 0 announced them, while anybody can list what was never
// saved. What is not part of the training any more goes first, but goes only
// once there are enough others; nothing of a later attempt than the job's goes.
// `present` are those of `reported` that nobody was told to delete: whoever
// deletes has seen what is left.
std::vector<v1::HeldCheckpoint> ExpiredStates(
    const std::vector<v1::HeldCheckpoint>& reported,
    const std::vector<v1::HeldCheckpoint>& present,
    const TrainingLineage& lineage, const v1::Job& job, bool over);

// Whether the job names the state, which its member 0 has announced. Not all
// that were announced stay named.
bool IsAnnounced(const v1::HeldCheckpoint& held, const v1::Job& job);

// Whether ExpiredStates may return any of so many that the worker has there.
bool MayHaveExpired(size_t reported, const v1::Job& job, bool over);

// Forgets the checkpoints that are not part of the job's training any more.
void DropStale(const TrainingLineage& lineage, v1::Job* job);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_CHECKPOINTS_H_
