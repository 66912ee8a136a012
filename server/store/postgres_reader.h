#ifndef COMERA_SERVER_STORE_POSTGRES_READER_H_
#define COMERA_SERVER_STORE_POSTGRES_READER_H_

#include <pqxx/pqxx>
#include <string>
#include <vector>

#include "server/store/job_store.h"

namespace comera::server {

// What one transaction of a PostgresConnection sees of the store. Throws what
// libpqxx throws.
class PostgresReader : public StoreReader {
 public:
  explicit PostgresReader(pqxx::transaction_base* transaction)
      : transaction_(*transaction) {}

  absl::StatusOr<std::vector<JobRecord>> LoadJobs() override;
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& job,
                                                       int64_t after,
                                                       int64_t last,
                                                       int limit) override;
  absl::StatusOr<std::vector<Document>> LoadDocuments(
      const std::string& kind) override;
  absl::StatusOr<std::vector<AuditRow>> ReadAudit(int64_t before,
                                                  int limit) override;

  // The jobs that a commit after `change` wrote, in any order.
  absl::StatusOr<std::vector<JobRecord>> LoadChangedJobs(int64_t change);

 private:
  pqxx::transaction_base& transaction_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_READER_H_
