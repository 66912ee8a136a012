#ifndef COMERA_SERVER_COORDINATOR_EFFECTS_H_
#define COMERA_SERVER_COORDINATOR_EFFECTS_H_

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

// Answer to the Synchronize call that the coordinator was given as `call`.
struct SynchronizeReply {
  int64_t call = 0;
  absl::StatusOr<v1::SynchronizeResponse> response;
};

// Asks whether the process of a silent worker is still there.
struct WorkerProbe {
  std::string worker;
  std::string incarnation;
  // host:port on which it listens as long as it lives.
  std::string address;
};

// What an operation of the coordinator wants done, in this order: make
// `records`, `events` and `documents` durable in one step; then show them to
// readers, together with `views`, and release `replies`.
struct Effects {
  // Changed jobs by name.
  std::map<std::string, JobRecord> records;
  // Jobs of which only `reason` changed: shown, not stored.
  std::map<std::string, v1::Job> views;
  // In order; a final state's StateChange is a job's last event.
  std::vector<v1::JobEvent> events;
  std::vector<SynchronizeReply> replies;
  // Changed queues and workers.
  std::vector<Document> documents;
  // At any time; a refused connection is told by
  // Coordinator::ConfirmWorkerExit.
  std::vector<WorkerProbe> probes;
  // Names of finished jobs to forget.
  std::vector<std::string> deleted_jobs;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_EFFECTS_H_
