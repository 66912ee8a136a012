#ifndef COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_PARTS_H_
#define COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_PARTS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/failure_recorder.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/operation/effects.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/queue/queue_table.h"
#include "server/coordinator/schedule/start_chooser.h"
#include "server/coordinator/synchronize/assignment_writer.h"
#include "server/coordinator/synchronize/held_calls.h"
#include "server/coordinator/synchronize/member_reports.h"
#include "server/coordinator/worker/checkpoint_peers.h"
#include "server/coordinator/worker/worker_exclusion.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// The coordinator's tables and the parts that work on them, for tests of one
// part at a time. Not thread-safe.
struct CoordinatorParts {
  absl::Time now = absl::FromUnixSeconds(1000000);
  Effects effects;
  CoordinatorOptions options;
  JobTable jobs;
  WorkerTable workers;
  QueueTable queues;
  CheckpointPeers peers{&options, &jobs, &workers};
  StartChooser starts{&options, &workers, &peers};
  WorkerExclusion exclusion{3, absl::Hours(1), &workers};
  FailureRecorder failures{&exclusion};
  JobLifecycle lifecycle{&options, &jobs, &workers, &failures};
  MemberReports members{absl::Seconds(10), &jobs, &workers, &failures,
                        &lifecycle};
  AssignmentWriter assignments{&options, &jobs, &peers};
  HeldCalls held_calls{&workers, &assignments};

  // A queued job of this many members, named jobs/{id}, which has run on these
  // workers.
  JobEntry& AddJob(const std::string& id, int processes = 2,
                   const std::vector<std::string>& runners = {});
  // A worker of host `id` that has just reported, in incarnation i1.
  WorkerState& AddWorker(const std::string& id, int slots = 2);
  // A job that is placed on slots 0, 1, ... of one worker, which must exist.
  JobEntry& StartJob(const std::string& id, const std::string& worker,
                     int processes = 2);
  // A report of the worker without members.
  v1::SynchronizeRequest Report(const std::string& worker, int slots = 2) const;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_PARTS_H_
