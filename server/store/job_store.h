#ifndef COMERA_SERVER_STORE_JOB_STORE_H_
#define COMERA_SERVER_STORE_JOB_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// A small named message that some part of the server keeps: a queue, a token, a
// dataset, a sweep. The store does not look into it.
struct Document {
  // E.g. "queue"; [a-z_]{1,32}.
  std::string kind;
  // Unique within the kind, 1 to 256 bytes.
  std::string name;
  // Unset: the document is deleted.
  std::optional<std::string> body;
};

// One entry of the append-only audit log.
struct AuditRow {
  // From 1, ascending; given by the store, ignored by Commit().
  int64_t id = 0;
  absl::Time time;
  // Serialised message; the store does not look into it.
  std::string entry;
};

// Changes that become durable together.
struct StoreBatch {
  // A later record of a job replaces an earlier one.
  std::vector<JobRecord> records;
  std::vector<v1::JobEvent> events;
  // Names of jobs to forget, with all their events; applied last.
  std::vector<std::string> deleted_jobs;
  // In order: a later document of the same kind and name replaces an earlier
  // one.
  std::vector<Document> documents;
  std::vector<AuditRow> audit;

  bool empty() const {
    return records.empty() && events.empty() && deleted_jobs.empty() &&
           documents.empty() && audit.empty();
  }
};

// What a store holds, for reading. Not thread-safe; calls may block on the
// disk.
//
// Errors of all methods: DataLoss when the stored data are damaged, Unavailable
// for IO errors.
class StoreReader {
 public:
  virtual ~StoreReader() = default;

  // All records in order of acceptance (serial).
  virtual absl::StatusOr<std::vector<JobRecord>> LoadJobs() = 0;

  // Events with a sequence in (after, last], ascending, at most `limit`.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(
      const std::string& job, int64_t after, int64_t last, int limit) = 0;

  // All documents of a kind by name; of an empty kind: all, by kind and name.
  virtual absl::StatusOr<std::vector<Document>> LoadDocuments(
      const std::string& kind) = 0;

  // Audit entries with an id below `before` (0: all), newest first, at most
  // `limit`.
  virtual absl::StatusOr<std::vector<AuditRow>> ReadAudit(int64_t before,
                                                          int limit) = 0;
};

// Durable jobs with their events, documents and the audit log. Not thread-safe,
// but for Backup(); calls may block on the disk.
//
// Guarantees: after Commit() returned OK its batch survives a crash of process
// or machine; after an error or a crash inside it, all of the batch is there or
// nothing of it. Events that are not samples (event_retention.h) are kept for
// ever; of each job's series of samples at most `max_samples` stay, always with
// the first and the last, evenly over the job's life.
//
// Errors of all methods: those of StoreReader, ResourceExhausted when the disk
// is full.
class JobStore : public StoreReader {
 public:
  // InvalidArgument: a request_id or serial of another job is used again; the
  // batch is not applied. Repeating an event (same job and sequence) changes
  // nothing.
  virtual absl::Status Commit(const StoreBatch& batch) = 0;

  // Writes all that is committed, in one consistent state, into a new SQLite
  // file (SqliteJobStore reads it). Any thread, also while others write.
  // AlreadyExists: there is a file at `path`.
  virtual absl::Status Backup(const std::string& path) = 0;

  // Room that it takes. Unimplemented: nobody knows.
  virtual absl::StatusOr<int64_t> SizeBytes() {
    return absl::UnimplementedError("no size");
  }

  // Gives the room of what was deleted back to the system, a part at a time; to
  // be called now and then.
  virtual absl::Status Compact() { return absl::OkStatus(); }
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_JOB_STORE_H_
