#ifndef COMERA_SERVER_STORE_POSTGRES_JOB_STORE_H_
#define COMERA_SERVER_STORE_POSTGRES_JOB_STORE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/store/change_feed.h"
#include "server/store/job_store.h"
#include "server/store/postgres_connection.h"
#include "server/store/postgres_reader.h"

namespace comera::server {

// JobStore in a PostgreSQL database that several coordinators share, of which
// one leads (postgres_leadership.h) and writes.
//
// Guarantees and errors as in JobStore; one transaction per Commit, a few
// statements whatever its size. Each commit checks in its own transaction that
// its coordinator still leads: FailedPrecondition where another has taken over,
// and nothing is written. A broken connection is Unavailable, and the next call
// opens a new one.
class PostgresJobStore : public JobStore, public ChangeFeed {
 public:
  struct Options {
    // Per job and series of samples.
    int max_samples = 2000;
    // The term of the leadership under which to write; 0: reads only.
    int64_t term = 0;
    PostgresConnection::Options connection;
  };

  // Brings the schema up to date. InvalidArgument: the URL;
  // FailedPrecondition: a newer program wrote the database.
  static absl::StatusOr<std::unique_ptr<PostgresJobStore>> Open(
      const std::string& url, const Options& options);

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

  absl::StatusOr<StoreChanges> ReadChanges(int64_t after) override;
  absl::Status Backup(const std::string& path) override;
  absl::StatusOr<int64_t> SizeBytes() override;

  // Copies a whole store into this one, in one transaction. AlreadyExists: it
  // has jobs; otherwise the errors of both.
  absl::Status Fill(StoreReader* from);

 private:
  PostgresJobStore(std::string url, const Options& options)
      : url_(url),
        options_(options),
        connection_(std::move(url), options.connection) {}

  // The result of `read` in one transaction.
  template <typename T>
  absl::StatusOr<T> ReadWith(
      const std::function<absl::StatusOr<T>(PostgresReader&)>& read,
      absl::Duration timeout = PostgresConnection::Options().timeout);

  absl::Status Apply(const StoreBatch& batch, pqxx::work& work);
  void PutRecords(const std::vector<JobRecord>& records, int64_t change,
                  pqxx::work& work);
  absl::Status PutEvents(const std::vector<v1::JobEvent>& events,
                         pqxx::work& work);
  void PutDocuments(const std::vector<Document>& documents, pqxx::work& work);
  void PutAudit(const std::vector<AuditRow>& rows, pqxx::work& work);
  void DeleteJobs(const std::vector<std::string>& names, int64_t change,
                  pqxx::work& work);
  void CountSamples(const std::map<std::string, bool>& jobs, pqxx::work& work);
  void Thin(const std::string& job, int series, pqxx::work& work);

  const std::string url_;
  const Options options_;
  PostgresConnection connection_;
  // Samples stored, by job and series, of jobs once counted.
  std::map<std::string, std::map<int, int>> counts_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_JOB_STORE_H_
