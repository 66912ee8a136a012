#ifndef COMERA_SERVER_JOB_STORE_H_
#define COMERA_SERVER_JOB_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/progress.pb.h"
#include "server/job_record.pb.h"

namespace comera::server {

// Changes that become durable together.
struct StoreBatch {
  // A later record of a job replaces an earlier one.
  std::vector<JobRecord> records;
  std::vector<v1::JobEvent> events;
};

// Durable jobs and their events. Not thread-safe; calls may block on the disk.
//
// Guarantees: after Commit() returned OK its batch survives a crash of process
// or machine; after an error or a crash inside it, all of the batch is there or
// nothing of it. Events that are not samples (event_retention.h) are kept for
// ever; of each job's series of samples at most `max_samples` stay, always with
// the first and the last.
//
// Errors of all methods: DataLoss when the stored data are damaged,
// ResourceExhausted when the disk is full, Unavailable for other IO errors.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // All records in order of acceptance (serial).
  virtual absl::StatusOr<std::vector<JobRecord>> LoadJobs() = 0;

  // InvalidArgument: a request_id or serial of another job is used again; the
  // batch is not applied. Repeating an event (same job and sequence) changes
  // nothing.
  virtual absl::Status Commit(const StoreBatch& batch) = 0;

  // Events with a sequence in (after, last], ascending, at most `limit`.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(
      const std::string& job, int64_t after, int64_t last, int limit) = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_JOB_STORE_H_
