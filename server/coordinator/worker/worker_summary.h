// Workers as clients and operators see them.
#ifndef COMERA_SERVER_COORDINATOR_WORKER_WORKER_SUMMARY_H_
#define COMERA_SERVER_COORDINATOR_WORKER_WORKER_SUMMARY_H_

#include "absl/time/time.h"
#include "comera/v1/training_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/worker/cluster_counts.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

v1::WorkerSummary Summarize(const WorkerState& worker,
                            const CoordinatorOptions& options, absl::Time now);

// All workers in numbers, which takes much less time than their summaries.
ClusterCounts CountCluster(const WorkerTable& workers,
                           absl::Duration suspect_after, absl::Time now);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_WORKER_SUMMARY_H_
