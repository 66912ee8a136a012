// Decides which failure an attempt is blamed on, and whether and when the job
// is tried again.
#ifndef COMERA_SERVER_COORDINATOR_JOB_RETRY_POLICY_H_
#define COMERA_SERVER_COORDINATOR_JOB_RETRY_POLICY_H_

#include <vector>

#include "absl/time/time.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// The failures of an attempt, the cause first, then by time. A failed
// collective is what a member sees of another member's end, so it is the cause
// only when nothing else failed. What ended an attempt by leaving its best
// model, such as its time limit, comes first, whatever time the members' clocks
// gave to their ends.
std::vector<v1::Failure> FailuresCauseFirst(const AttemptRecord& attempt);

// Charges one lost attempt to the budget of the cause's class; returns whether
// that budget allowed it. A class's own budget goes before its group's. USER
// and DATA have none; PREEMPTED is charged to none and always allowed.
bool ChargeRetry(v1::FailureClass cause, JobRecord* record);

// Whether failures of the class are those of machines and networks.
bool IsInfrastructure(v1::FailureClass failure_class);

// The job has saved a state that is further than any before: one lost attempt
// is taken back from the budget of infrastructure, and from that of each of its
// classes that has its own.
void RefillRetries(JobRecord* record);

struct RetryBackoff {
  // The first lost attempt in a row is followed at once, the second after
  // `first`, each later one after twice as long, up to `longest`.
  absl::Duration first = absl::Seconds(1);
  absl::Duration longest = absl::Minutes(1);
};

// How long a job waits that lost this many attempts in a row, at least one.
// `jitter`, in [0, 1], spreads the wait over half to the whole of it, so that
// jobs that were lost together do not all come back together.
absl::Duration RetryDelay(const RetryBackoff& backoff, int32_t losses_in_row,
                          double jitter);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_RETRY_POLICY_H_
