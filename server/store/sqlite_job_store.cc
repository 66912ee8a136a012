// Keeps jobs, events and documents in an SQLite file.
#include "server/store/sqlite_job_store.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/job_state.h"
#include "server/store/event_retention.h"
#include "server/store/sqlite_backup.h"
#include "server/store/sqlite_schema.h"

namespace comera::server {
namespace {

void BindText(sqlite3_stmt* statement, int index, const std::string& text) {
  sqlite3_bind_text(statement, index, text.data(),
                    static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

void BindBlob(sqlite3_stmt* statement, int index, const std::string& bytes) {
  sqlite3_bind_blob(statement, index, bytes.data(),
                    static_cast<int>(bytes.size()), SQLITE_TRANSIENT);
}

std::string ColumnBytes(sqlite3_stmt* statement, int column) {
  const void* data = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return std::string(static_cast<const char*>(data), size);
}

template <typename Message>
bool ParseColumn(sqlite3_stmt* statement, int column, Message* message) {
  const void* data = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return message->ParseFromArray(data, size);
}

// "ok", or the first damage that SQLite finds.
absl::Status QuickCheck(sqlite3* db) {
  sqlite3_stmt* statement = nullptr;
  int code =
      sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &statement, nullptr);
  if (code != SQLITE_OK) return SqliteError(db, code, "quick_check");
  code = sqlite3_step(statement);
  std::string verdict;
  if (code == SQLITE_ROW) {
    verdict = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  }
  sqlite3_finalize(statement);
  if (code != SQLITE_ROW) return SqliteError(db, code, "quick_check");
  if (verdict != "ok") return absl::DataLossError(verdict);
  return absl::OkStatus();
}

// Lets Compact() give free pages back. A file from before that was so is
// written anew, once; a crash on the way leaves it as it was.
absl::Status FreePagesOnDemand(sqlite3* db) {
  ASSIGN_OR_RETURN(const int64_t mode, SqliteNumber(db, "PRAGMA auto_vacuum"));
  constexpr int64_t kIncremental = 2;
  if (mode == kIncremental) return absl::OkStatus();
  RETURN_IF_ERROR(SqliteExec(db, "PRAGMA auto_vacuum=INCREMENTAL"));
  return SqliteExec(db, "VACUUM");
}

absl::Status SetUp(sqlite3* db) {
  sqlite3_busy_timeout(db, 5000);
  RETURN_IF_ERROR(SqliteExec(db, "PRAGMA journal_mode=WAL"));
  RETURN_IF_ERROR(SqliteExec(db, "PRAGMA synchronous=FULL"));
  // The log shrinks to this after a checkpoint.
  RETURN_IF_ERROR(SqliteExec(db, "PRAGMA journal_size_limit=16777216"));
  RETURN_IF_ERROR(QuickCheck(db));
  RETURN_IF_ERROR(FreePagesOnDemand(db));
  return MigrateSchema(db, NewestSchemaVersion());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJobStore>> SqliteJobStore::Open(
    const std::string& path, const Options& options) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
      nullptr);
  absl::Status status =
      code == SQLITE_OK ? SetUp(db) : SqliteError(db, code, "open");
  // Owns db from here on.
  std::unique_ptr<SqliteJobStore> store(new SqliteJobStore(path, db, options));
  if (status.ok()) status = store->PrepareAll();
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(path, ": ", status.message()));
  }
  return store;
}

SqliteJobStore::~SqliteJobStore() {
  put_record_.reset();
  put_event_.reset();
  read_events_.reset();
  read_series_.reset();
  delete_event_.reset();
  delete_job_.reset();
  delete_events_.reset();
  put_document_.reset();
  delete_document_.reset();
  put_audit_.reset();
  sqlite3_close(db_);
}

absl::Status SqliteJobStore::Prepare(const char* sql, Statement* statement) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(db_, sql, -1, &raw, nullptr);
  statement->reset(raw);
  if (code != SQLITE_OK) return SqliteError(db_, code, sql);
  return absl::OkStatus();
}

absl::Status SqliteJobStore::PrepareAll() {
  RETURN_IF_ERROR(
      Prepare("INSERT INTO jobs (name, serial, state, request_id, record) "
              "VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
              "state = excluded.state, record = excluded.record",
              &put_record_));
  RETURN_IF_ERROR(
      Prepare("INSERT OR IGNORE INTO events (job, sequence, series, event) "
              "VALUES (?, ?, ?, ?)",
              &put_event_));
  RETURN_IF_ERROR(
      Prepare("SELECT event FROM events WHERE job = ? AND sequence > ? AND "
              "sequence <= ? ORDER BY sequence LIMIT ?",
              &read_events_));
  RETURN_IF_ERROR(
      Prepare("SELECT sequence FROM events WHERE job = ? AND series = ? AND "
              "series <> 0 ORDER BY sequence",
              &read_series_));
  RETURN_IF_ERROR(Prepare("DELETE FROM events WHERE job = ? AND sequence = ?",
                          &delete_event_));
  RETURN_IF_ERROR(Prepare("DELETE FROM jobs WHERE name = ?", &delete_job_));
  RETURN_IF_ERROR(Prepare("DELETE FROM events WHERE job = ?", &delete_events_));
  RETURN_IF_ERROR(
      Prepare("INSERT INTO documents (kind, name, body) VALUES (?, ?, ?) "
              "ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body",
              &put_document_));
  RETURN_IF_ERROR(Prepare("DELETE FROM documents WHERE kind = ? AND name = ?",
                          &delete_document_));
  return Prepare("INSERT INTO audit (time_micros, entry) VALUES (?, ?)",
                 &put_audit_);
}

absl::StatusOr<std::vector<JobRecord>> SqliteJobStore::LoadJobs() {
  Statement statement;
  RETURN_IF_ERROR(
      Prepare("SELECT name, record FROM jobs ORDER BY serial", &statement));
  std::vector<JobRecord> records;
  int code;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    JobRecord record;
    const std::string name(
        reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0)));
    if (!ParseColumn(statement.get(), 1, &record) ||
        record.job().name() != name) {
      return absl::DataLossError(
          absl::StrCat("the record of ", name, " is damaged"));
    }
    records.push_back(std::move(record));
  }
  if (code != SQLITE_DONE) return SqliteError(db_, code, "load jobs");
  return records;
}

absl::Status SqliteJobStore::Step(sqlite3_stmt* statement, const char* what) {
  const int code = sqlite3_step(statement);
  absl::Status status;
  if (code != SQLITE_DONE) status = SqliteError(db_, code, what);
  sqlite3_reset(statement);
  return status;
}

absl::Status SqliteJobStore::PutRecord(const JobRecord& record) {
  sqlite3_stmt* statement = put_record_.get();
  BindText(statement, 1, record.job().name());
  sqlite3_bind_int64(statement, 2, record.serial());
  sqlite3_bind_int(statement, 3, record.job().state());
  if (record.job().request_id().empty()) {
    sqlite3_bind_null(statement, 4);
  } else {
    BindText(statement, 4, record.job().request_id());
  }
  BindBlob(statement, 5, record.SerializeAsString());
  if (IsFinal(record.job().state())) ForgetCounts(record.job().name());
  return Step(statement, "write a job");
}

absl::Status SqliteJobStore::PutEvent(const v1::JobEvent& event) {
  const int series = SampleSeries(event);
  sqlite3_stmt* statement = put_event_.get();
  BindText(statement, 1, event.job());
  sqlite3_bind_int64(statement, 2, event.sequence());
  sqlite3_bind_int(statement, 3, series);
  BindBlob(statement, 4, event.SerializeAsString());
  RETURN_IF_ERROR(Step(statement, "write an event"));
  if (series == 0) return absl::OkStatus();
  const auto key = std::make_pair(event.job(), series);
  auto count = counts_.find(key);
  if (count == counts_.end()) {
    ASSIGN_OR_RETURN(std::vector<int64_t> all, ReadSeries(event.job(), series));
    counts_[key] = static_cast<int>(all.size());
    count = counts_.find(key);
  } else {
    ++count->second;
  }
  if (count->second <= options_.max_samples) return absl::OkStatus();
  return Thin(event.job(), series);
}

absl::StatusOr<std::vector<int64_t>> SqliteJobStore::ReadSeries(
    const std::string& job, int series) {
  sqlite3_stmt* statement = read_series_.get();
  BindText(statement, 1, job);
  sqlite3_bind_int(statement, 2, series);
  std::vector<int64_t> sequences;
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    sequences.push_back(sqlite3_column_int64(statement, 0));
  }
  absl::Status status;
  if (code != SQLITE_DONE) status = SqliteError(db_, code, "read samples");
  sqlite3_reset(statement);
  RETURN_IF_ERROR(status);
  return sequences;
}

absl::Status SqliteJobStore::Thin(const std::string& job, int series) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> all, ReadSeries(job, series));
  const std::vector<int64_t> doomed = ThinSeries(all, options_.max_samples / 2);
  for (int64_t sequence : doomed) {
    sqlite3_stmt* statement = delete_event_.get();
    BindText(statement, 1, job);
    sqlite3_bind_int64(statement, 2, sequence);
    RETURN_IF_ERROR(Step(statement, "thin samples"));
  }
  counts_[{job, series}] = static_cast<int>(all.size() - doomed.size());
  return absl::OkStatus();
}

void SqliteJobStore::ForgetCounts(const std::string& job) {
  counts_.erase(counts_.lower_bound({job, 0}),
                counts_.lower_bound({job + '\0', 0}));
}

absl::Status SqliteJobStore::DeleteJob(const std::string& name) {
  BindText(delete_events_.get(), 1, name);
  RETURN_IF_ERROR(Step(delete_events_.get(), "delete a job's events"));
  ForgetCounts(name);
  BindText(delete_job_.get(), 1, name);
  return Step(delete_job_.get(), "delete a job");
}

absl::Status SqliteJobStore::PutDocument(const Document& document) {
  sqlite3_stmt* statement =
      document.body ? put_document_.get() : delete_document_.get();
  BindText(statement, 1, document.kind);
  BindText(statement, 2, document.name);
  if (document.body) BindBlob(statement, 3, *document.body);
  return Step(statement, "write a document");
}

absl::Status SqliteJobStore::PutAudit(const AuditRow& row) {
  sqlite3_stmt* statement = put_audit_.get();
  sqlite3_bind_int64(statement, 1, absl::ToUnixMicros(row.time));
  BindBlob(statement, 2, row.entry);
  return Step(statement, "write the audit log");
}

absl::Status SqliteJobStore::Apply(const StoreBatch& batch) {
  for (const JobRecord& record : batch.records) {
    RETURN_IF_ERROR(PutRecord(record));
  }
  for (const v1::JobEvent& event : batch.events) {
    RETURN_IF_ERROR(PutEvent(event));
  }
  for (const Document& document : batch.documents) {
    RETURN_IF_ERROR(PutDocument(document));
  }
  for (const AuditRow& row : batch.audit) RETURN_IF_ERROR(PutAudit(row));
  for (const std::string& name : batch.deleted_jobs) {
    RETURN_IF_ERROR(DeleteJob(name));
  }
  return absl::OkStatus();
}

absl::Status SqliteJobStore::Commit(const StoreBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(SqliteExec(db_, "BEGIN IMMEDIATE"));
  absl::Status status = Apply(batch);
  if (status.ok()) status = SqliteExec(db_, "COMMIT");
  if (!status.ok()) {
    // Some errors have rolled back already.
    SqliteExec(db_, "ROLLBACK").IgnoreError();
    counts_.clear();
  }
  return status;
}

absl::StatusOr<std::vector<v1::JobEvent>> SqliteJobStore::ReadEvents(
    const std::string& job, int64_t after, int64_t last, int limit) {
  sqlite3_stmt* statement = read_events_.get();
  BindText(statement, 1, job);
  sqlite3_bind_int64(statement, 2, after);
  sqlite3_bind_int64(statement, 3, last);
  sqlite3_bind_int(statement, 4, limit);
  std::vector<v1::JobEvent> events;
  absl::Status status;
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    v1::JobEvent event;
    if (!ParseColumn(statement, 0, &event)) {
      status =
          absl::DataLossError(absl::StrCat("an event of ", job, " is damaged"));
      break;
    }
    events.push_back(std::move(event));
  }
  if (status.ok() && code != SQLITE_DONE) {
    status = SqliteError(db_, code, "read events");
  }
  sqlite3_reset(statement);
  RETURN_IF_ERROR(status);
  return events;
}

absl::StatusOr<std::vector<Document>> SqliteJobStore::LoadDocuments(
    const std::string& kind) {
  Statement statement;
  RETURN_IF_ERROR(
      Prepare("SELECT kind, name, body FROM documents WHERE kind = ?1 OR "
              "?1 = '' ORDER BY kind, name",
              &statement));
  BindText(statement.get(), 1, kind);
  std::vector<Document> documents;
  int code;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    documents.push_back({ColumnBytes(statement.get(), 0),
                         ColumnBytes(statement.get(), 1),
                         ColumnBytes(statement.get(), 2)});
  }
  if (code != SQLITE_DONE) return SqliteError(db_, code, "load documents");
  return documents;
}

absl::StatusOr<std::vector<AuditRow>> SqliteJobStore::ReadAudit(int64_t before,
                                                                int limit) {
  Statement statement;
  RETURN_IF_ERROR(
      Prepare("SELECT id, time_micros, entry FROM audit WHERE id < ? OR ? = 0 "
              "ORDER BY id DESC LIMIT ?",
              &statement));
  sqlite3_bind_int64(statement.get(), 1, before);
  sqlite3_bind_int64(statement.get(), 2, before);
  sqlite3_bind_int(statement.get(), 3, limit);
  std::vector<AuditRow> rows;
  int code;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    rows.push_back(
        {sqlite3_column_int64(statement.get(), 0),
         absl::FromUnixMicros(sqlite3_column_int64(statement.get(), 1)),
         ColumnBytes(statement.get(), 2)});
  }
  if (code != SQLITE_DONE) return SqliteError(db_, code, "read the audit log");
  return rows;
}

absl::Status SqliteJobStore::Backup(const std::string& path) {
  return BackupSqlite(path_, path);
}

absl::StatusOr<int64_t> SqliteJobStore::SizeBytes() {
  ASSIGN_OR_RETURN(const int64_t pages, SqliteNumber(db_, "PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t page, SqliteNumber(db_, "PRAGMA page_size"));
  struct stat log = {};
  // Without one there is nothing in it.
  if (stat((path_ + "-wal").c_str(), &log) != 0) log.st_size = 0;
  return pages * page + log.st_size;
}

absl::Status SqliteJobStore::Compact() {
  // About 40 MB at a time, so that commits do not wait for long.
  RETURN_IF_ERROR(SqliteExec(db_, "PRAGMA incremental_vacuum(10000)"));
  return SqliteExec(db_, "PRAGMA wal_checkpoint(PASSIVE)");
}

}  // namespace comera::server
