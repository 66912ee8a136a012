// The checkpoints that a job's record names.
#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_CHECKPOINTS_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_CHECKPOINTS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::server {

// Names a checkpoint that `worker`, where member 0 runs, has saved. As many as
// the job keeps stay named, and those that are durable.
void RecordSaved(const v1::CheckpointSaved& saved, const std::string& worker,
                 absl::Time now, v1::Job* job);

// Brings the named checkpoints in line with all those that `worker` holds; the
// ones that nobody holds are forgotten. Returns whether anything changed.
bool UpdateHeld(const std::string& worker,
                const std::vector<v1::HeldCheckpoint>& held, v1::Job* job);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_CHECKPOINTS_H_
