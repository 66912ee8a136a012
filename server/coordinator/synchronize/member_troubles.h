#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_MEMBER_TROUBLES_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_MEMBER_TROUBLES_H_

#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"

namespace comera::server {

// Turns what the worker says goes wrong for its running jobs into incidents of
// them: each trouble once for an attempt, however often it is repeated.
// Troubles of other attempts, and of jobs without a member there, change
// nothing.
void ApplyMemberTroubles(const v1::SynchronizeRequest& request, JobTable* jobs,
                         Operation* op);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_MEMBER_TROUBLES_H_
