#ifndef COMERA_SERVER_STORE_SQLITE_JOB_STORE_H_
#define COMERA_SERVER_STORE_SQLITE_JOB_STORE_H_

#include <sqlite3.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/store/job_store.h"

namespace comera::server {

// JobStore in one SQLite file: write-ahead log, every commit synced to disk.
// Guarantees and errors as in JobStore. The file is checked when it is opened.
class SqliteJobStore : public JobStore {
 public:
  struct Options {
    // Per job and series of samples.
    int max_samples = 2000;
  };

  // Opens or creates `path` and brings its schema up to date. DataLoss: the
  // file is damaged; FailedPrecondition: a newer program wrote it.
  // The folder's other file, PATH-wal, belongs to it.
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(
      const std::string& path, const Options& options);
  ~SqliteJobStore() override;

  absl::StatusOr<std::vector<JobRecord>> LoadJobs() override;
  absl::Status Commit(const StoreBatch& batch) override;
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& job,
                                                       int64_t after,
                                                       int64_t last,
                                                       int limit) override;
  absl::StatusOr<std::vector<Document>> LoadDocuments(
      const std::string& kind) override;
  absl::StatusOr<std::vector<AuditRow>> ReadAudit(int64_t before,
                                                  int limit) override;
  absl::Status Backup(const std::string& path) override;
  absl::StatusOr<int64_t> SizeBytes() override;
  absl::Status Compact() override;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const {
      sqlite3_finalize(statement);
    }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  SqliteJobStore(std::string path, sqlite3* db, const Options& options)
      : path_(std::move(path)), options_(options), db_(db) {}

  absl::Status Prepare(const char* sql, Statement* statement);
  absl::Status PrepareAll();
  absl::Status Step(sqlite3_stmt* statement, const char* what);
  absl::Status Apply(const StoreBatch& batch);
  absl::Status PutRecord(const JobRecord& record);
  absl::Status PutEvent(const v1::JobEvent& event);
  absl::Status DeleteJob(const std::string& name);
  absl::Status PutDocument(const Document& document);
  absl::Status PutAudit(const AuditRow& row);
  absl::Status Thin(const std::string& job, int series);
  void ForgetCounts(const std::string& job);
  absl::StatusOr<std::vector<int64_t>> ReadSeries(const std::string& job,
                                                  int series);

  const std::string path_;
  const Options options_;
  sqlite3* const db_;
  Statement put_record_;
  Statement put_event_;
  Statement read_events_;
  Statement read_series_;
  Statement delete_event_;
  Statement delete_job_;
  Statement delete_events_;
  Statement put_document_;
  Statement delete_document_;
  Statement put_audit_;
  // Samples stored, by job and series, once counted.
  std::map<std::pair<std::string, int>, int> counts_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_SQLITE_JOB_STORE_H_
