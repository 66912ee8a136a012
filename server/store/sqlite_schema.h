// The tables of SqliteJobStore and how they came to be.
#ifndef COMERA_SERVER_STORE_SQLITE_SCHEMA_H_
#define COMERA_SERVER_STORE_SQLITE_SCHEMA_H_

#include <sqlite3.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::server {

// The version that this program reads and writes.
int NewestSchemaVersion();

// Brings the database from its version to `version`, each step in its own
// transaction. FailedPrecondition: the database is newer than this program.
absl::Status MigrateSchema(sqlite3* db, int version);

// `code` (not SQLITE_OK) of `what` as a Status: DataLoss, ResourceExhausted,
// InvalidArgument (constraint) or Unavailable. Call it right after `what`, on
// the same thread: errno tells a full quota from a broken disk.
absl::Status SqliteError(sqlite3* db, int code, const std::string& what);

// The first number that `sql` returns.
absl::StatusOr<int64_t> SqliteNumber(sqlite3* db, const char* sql);

// Runs statements whose rows nobody wants.
absl::Status SqliteExec(sqlite3* db, const char* sql);

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_SQLITE_SCHEMA_H_
