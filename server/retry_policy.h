// Which failure an attempt is blamed on, and whether the job is tried again.
#ifndef COMERA_SERVER_RETRY_POLICY_H_
#define COMERA_SERVER_RETRY_POLICY_H_

#include <vector>

#include "server/job_record.pb.h"

namespace comera::server {

// The failures of an attempt, the cause first, then by time. A failed
// collective is what a rank sees of another rank's end, so it is the cause only
// when nothing else failed.
std::vector<v1::Failure> FailuresCauseFirst(const Attempt& attempt);

// Charges one lost attempt to the budget of the cause's class; returns whether
// that budget allowed it. USER and DATA have none.
bool ChargeRetry(v1::FailureClass cause, JobRecord* record);

}  // namespace comera::server

#endif  // COMERA_SERVER_RETRY_POLICY_H_
