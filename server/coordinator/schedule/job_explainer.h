#ifndef COMERA_SERVER_COORDINATOR_SCHEDULE_JOB_EXPLAINER_H_
#define COMERA_SERVER_COORDINATOR_SCHEDULE_JOB_EXPLAINER_H_

#include <string>

#include "absl/time/time.h"
#include "comera/v1/training_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/queue/queue_directory.h"
#include "server/coordinator/queue/queue_table.h"
#include "server/coordinator/schedule/gang_scheduler.h"

namespace comera::server {

// Says where jobs stand: what they wait for, who is ahead, and when they are
// expected to start. Not thread-safe.
class JobExplainer {
 public:
  // All must outlive it.
  JobExplainer(const JobTable* jobs, const QueueDirectory* queues,
               const GangScheduler* scheduler)
      : jobs_(jobs), queues_(queues), scheduler_(scheduler) {}

  v1::JobExplanation Explain(const JobEntry& entry, absl::Time now) const;
  // What would become of a job that is submitted now.
  v1::Forecast Forecast(const v1::JobSpec& spec, const std::string& user,
                        absl::Time now) const;

 private:
  v1::JobExplanation ExplainQueued(const JobEntry& entry, absl::Time now) const;

  const JobTable* const jobs_;
  const QueueDirectory* const queues_;
  const GangScheduler* const scheduler_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SCHEDULE_JOB_EXPLAINER_H_
