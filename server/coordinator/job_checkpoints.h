// The checkpoints that a job's record names.
#ifndef COMERA_SERVER_COORDINATOR_JOB_CHECKPOINTS_H_
#define COMERA_SERVER_COORDINATOR_JOB_CHECKPOINTS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::server {

// `worker`, where rank 0 runs, saved one. As many as the job keeps stay named,
// and those that are durable.
void NoteSaved(const v1::CheckpointSaved& saved, const std::string& worker,
               absl::Time now, v1::Job* job);

// Brings in line what the job names with all that `worker` holds of it. What
// nobody holds is forgotten. Returns whether anything changed.
bool NoteHeld(const std::string& worker,
              const std::vector<v1::HeldCheckpoint>& held, v1::Job* job);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_CHECKPOINTS_H_
