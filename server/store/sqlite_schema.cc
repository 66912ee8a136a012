// Creates the store's tables in SQLite and brings older ones up to date.
#include "server/store/sqlite_schema.h"

#include <errno.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::server {
namespace {

// Whether the system has refused more room. SQLite reports a full quota, and a
// full disk in some places, as an error of the device; `error` is what the
// system called it.
bool IsFull(int code, int error) {
  const int primary = code & 0xff;
  if (primary == SQLITE_FULL) return true;
  return (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) &&
         (error == EDQUOT || error == ENOSPC);
}

// Step i leads from version i to i + 1. Released steps never change.
constexpr const char* kSteps[] = {
    // 1: jobs and their events.
    R"sql(
      CREATE TABLE jobs (
        name TEXT PRIMARY KEY NOT NULL,
        serial INTEGER NOT NULL UNIQUE,
        state INTEGER NOT NULL,
        request_id TEXT UNIQUE,
        record BLOB NOT NULL
      ) WITHOUT ROWID;
      CREATE TABLE events (
        job TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        series INTEGER NOT NULL,
        event BLOB NOT NULL,
        PRIMARY KEY (job, sequence)
      ) WITHOUT ROWID;
    )sql",
    // 2: finding one job's samples without reading its other events.
    R"sql(
      CREATE INDEX samples ON events (job, series, sequence) WHERE series <> 0;
    )sql",
    // 3: queues, tokens, datasets, sweeps; the audit log.
    R"sql(
      CREATE TABLE documents (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (kind, name)
      ) WITHOUT ROWID;
      CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time_micros INTEGER NOT NULL,
        entry BLOB NOT NULL
      );
    )sql",
};

}  // namespace

int NewestSchemaVersion() { return std::size(kSteps); }

absl::Status SqliteError(sqlite3* db, int code, const std::string& what) {
  // Not sqlite3_system_errno(), which a failed COMMIT leaves as it was: 0, or
  // what an earlier statement failed with. Nor does errno outlive this error.
  const int error = std::exchange(errno, 0);
  const std::string message = absl::StrCat(what, ": ", sqlite3_errstr(code),
                                           " (", sqlite3_errmsg(db), ")");
  if (IsFull(code, error)) return absl::ResourceExhaustedError(message);
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    case SQLITE_CONSTRAINT:
      return absl::InvalidArgumentError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::StatusOr<int64_t> SqliteNumber(sqlite3* db, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return SqliteError(db, code, sql);
  code = sqlite3_step(statement);
  const int64_t number =
      code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  sqlite3_finalize(statement);
  if (code != SQLITE_ROW) return SqliteError(db, code, sql);
  return number;
}

absl::Status SqliteExec(sqlite3* db, const char* sql) {
  const int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return SqliteError(db, code, sql);
  return absl::OkStatus();
}

absl::Status MigrateSchema(sqlite3* db, int version) {
  RETURN_IF_ERROR(SqliteExec(
      db,
      "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"));
  ASSIGN_OR_RETURN(int64_t current,
                   SqliteNumber(db, "SELECT max(version) FROM schema_version"));
  if (current > NewestSchemaVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the database has schema version ", current,
                     ", this program knows versions up to ",
                     NewestSchemaVersion(), ": start a newer comera-server"));
  }
  for (; current < version; ++current) {
    RETURN_IF_ERROR(SqliteExec(db, "BEGIN IMMEDIATE"));
    absl::Status status = SqliteExec(db, kSteps[current]);
    if (status.ok()) {
      status = SqliteExec(
          db,
          absl::StrCat("INSERT INTO schema_version VALUES (", current + 1, ")")
              .c_str());
    }
    if (status.ok()) status = SqliteExec(db, "COMMIT");
    if (!status.ok()) {
      SqliteExec(db, "ROLLBACK").IgnoreError();
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::server
