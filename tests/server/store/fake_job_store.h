#ifndef COMERA_TESTS_SERVER_STORE_FAKE_JOB_STORE_H_
#define COMERA_TESTS_SERVER_STORE_FAKE_JOB_STORE_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/store/job_store.h"

namespace comera::server {

// JobStore in memory. Keeps its contents over the coordinators that use it;
// can be told to fail. Thread-safe.
class FakeJobStore : public JobStore {
 public:
  explicit FakeJobStore(int max_samples = 2000) : max_samples_(max_samples) {}

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

  // Every later commit fails with `status`.
  void FailCommits(absl::Status status);
  int commits() const;

 private:
  void Thin(const std::string& job, int series);

  const int max_samples_;
  mutable std::mutex mutex_;
  absl::Status failure_;
  int commits_ = 0;
  std::map<std::string, JobRecord> records_;
  std::map<std::string, std::map<int64_t, v1::JobEvent>> events_;
  std::map<std::pair<std::string, std::string>, std::string> documents_;
  std::vector<AuditRow> audit_;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_STORE_FAKE_JOB_STORE_H_
