// Reads the store's tables within one PostgreSQL transaction.
#include "server/store/postgres_reader.h"

#include "absl/strings/str_cat.h"

namespace comera::server {
namespace {

std::string Bytes(const pqxx::field& field) {
  return pqxx::binarystring(field).str();
}

template <typename Message>
bool ParseField(const pqxx::field& field, Message* message) {
  const pqxx::binarystring bytes(field);
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

absl::StatusOr<std::vector<JobRecord>> ToRecords(const pqxx::result& rows) {
  std::vector<JobRecord> records;
  for (const pqxx::row& row : rows) {
    JobRecord& record = records.emplace_back();
    if (!ParseField(row[1], &record) ||
        record.job().name() != row[0].as<std::string>()) {
      return absl::DataLossError(absl::StrCat(
          "the record of ", row[0].as<std::string>(), " is damaged"));
    }
  }
  return records;
}

}  // namespace

absl::StatusOr<std::vector<JobRecord>> PostgresReader::LoadJobs() {
  return ToRecords(
      transaction_.exec("SELECT name, record FROM jobs ORDER BY serial"));
}

absl::StatusOr<std::vector<JobRecord>> PostgresReader::LoadChangedJobs(
    int64_t change) {
  return ToRecords(transaction_.exec_params(
      "SELECT name, record FROM jobs WHERE change > $1", change));
}

absl::StatusOr<std::vector<v1::JobEvent>> PostgresReader::ReadEvents(
    const std::string& job, int64_t after, int64_t last, int limit) {
  std::vector<v1::JobEvent> events;
  for (const pqxx::row& row : transaction_.exec_params(
           "SELECT event FROM events WHERE job = $1 AND sequence > $2 "
           "AND sequence <= $3 ORDER BY sequence LIMIT $4",
           job, after, last, limit)) {
    if (!ParseField(row[0], &events.emplace_back())) {
      return absl::DataLossError(
          absl::StrCat("an event of ", job, " is damaged"));
    }
  }
  return events;
}

absl::StatusOr<std::vector<Document>> PostgresReader::LoadDocuments(
    const std::string& kind) {
  std::vector<Document> documents;
  for (const pqxx::row& row : transaction_.exec_params(
           "SELECT kind, name, body FROM documents WHERE kind = $1 OR "
           "$1 = '' ORDER BY kind, name",
           kind)) {
    documents.push_back(
        {row[0].as<std::string>(), Bytes(row[1]), Bytes(row[2])});
  }
  return documents;
}

absl::StatusOr<std::vector<AuditRow>> PostgresReader::ReadAudit(int64_t before,
                                                                int limit) {
  std::vector<AuditRow> rows;
  for (const pqxx::row& row : transaction_.exec_params(
           "SELECT id, time_micros, entry FROM audit WHERE id < $1 OR $1 = 0 "
           "ORDER BY id DESC LIMIT $2",
           before, limit)) {
    rows.push_back({row[0].as<int64_t>(),
                    absl::FromUnixMicros(row[1].as<int64_t>()), Bytes(row[2])});
  }
  return rows;
}

}  // namespace comera::server
