#ifndef COMERA_SERVER_COORDINATOR_OPERATION_EFFECTS_H_
#define COMERA_SERVER_COORDINATOR_OPERATION_EFFECTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "server/store/job_record.pb.h"
#include "server/store/job_store.h"

namespace comera::server {

// The answer to the Synchronize call that the coordinator knows as `call`.
struct SynchronizeReply {
  int64_t call = 0;
  absl::StatusOr<v1::SynchronizeResponse> response;
};

// A question to a silent worker's machine: does its process still exist?
struct WorkerProbe {
  std::string worker;
  std::string incarnation;
  // The host:port on which the worker listens as long as it lives.
  std::string address;
};

// The things that an operation of the coordinator wants done, in this order:
// make `records`, `events` and `documents` durable in one step; then show them
// to readers, together with `views`, and release `replies`.
struct Effects {
  // Changed jobs by name.
  std::map<std::string, JobRecord> records;
  // Jobs whose `reason` alone changed, which is shown but not stored.
  std::map<std::string, v1::Job> views;
  // Events in order; the change to a final state is a job's last one.
  std::vector<v1::JobEvent> events;
  std::vector<SynchronizeReply> replies;
  // Changed queues and workers' policies, and the names of forgotten jobs.
  std::vector<Document> documents;
  // Probes may run at any time. If a connection is refused, call
  // Coordinator::ConfirmWorkerExit().
  std::vector<WorkerProbe> probes;
  // Names of finished jobs to forget.
  std::vector<std::string> deleted_jobs;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_OPERATION_EFFECTS_H_
