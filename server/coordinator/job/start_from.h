// Lets jobs begin with a training state of another job.
#ifndef COMERA_SERVER_COORDINATOR_JOB_START_FROM_H_
#define COMERA_SERVER_COORDINATOR_JOB_START_FROM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::server {

// OK if a job of `user` with this specification may start where it says.
// `source` is the job named there, null if there is none. NotFound: no such
// job. FailedPrecondition: it keeps no such checkpoint. PermissionDenied: it is
// somebody else's job in another queue.
absl::Status CheckStartFrom(const v1::JobSpec& spec, const std::string& user,
                            const v1::Job* source);

// The other job's training state that a job with this specification begins
// with; of attempt 0 if it is not known which attempt saved it. Nothing: with
// none, or with one that the coordinator itself keeps. `source` is as above.
std::optional<v1::TrainingStateKey> FindStart(const v1::JobSpec& spec,
                                              const v1::Job* source);

// Whether the artifact is the state at the end of an early stage.
bool IsEarlyStage(const v1::Artifact& artifact);

// Turns the stored artifact into a checkpoint of the job.
void AddEarlyStage(const v1::Artifact& artifact, int64_t step, absl::Time now,
                   v1::Job* job);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_START_FROM_H_
