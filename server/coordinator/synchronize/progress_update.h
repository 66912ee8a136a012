// Turns what a trainer reports into what clients see.
#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_PROGRESS_UPDATE_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_PROGRESS_UPDATE_H_

#include <optional>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::server {

// Brings the job's newest figures up to date; returns whether any changed.
bool UpdateProgress(const v1::TrainerEvent& event, v1::JobProgress* progress);

// The job event to publish, without job, sequence, time and attempt. There is
// none for heartbeats and failures, which travel with the member's status.
std::optional<v1::JobEvent> ToJobEvent(const v1::TrainerEvent& event);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_PROGRESS_UPDATE_H_
