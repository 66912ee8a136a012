// Copies an SQLite store while it is in use.
#include "server/store/sqlite_backup.h"

#include <sqlite3.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/sqlite_schema.h"

namespace comera::server {
namespace {

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Database = std::unique_ptr<sqlite3, Close>;

absl::StatusOr<Database> Open(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database db(raw);
  if (code != SQLITE_OK) return SqliteError(raw, code, path);
  sqlite3_busy_timeout(raw, 5000);
  return db;
}

absl::Status Copy(sqlite3* from, sqlite3* to) {
  sqlite3_backup* backup = sqlite3_backup_init(to, "main", from, "main");
  if (backup == nullptr) return SqliteError(to, sqlite3_errcode(to), "backup");
  // All pages in one step: one read transaction, beside which others write.
  const int step = sqlite3_backup_step(backup, -1);
  const int code = sqlite3_backup_finish(backup);
  if (code != SQLITE_OK) return SqliteError(to, code, "backup");
  // A database that was busy is no error of the end.
  if (step != SQLITE_DONE) return SqliteError(to, step, "backup");
  // A single file, whole by itself.
  return SqliteExec(to, "PRAGMA journal_mode=DELETE");
}

}  // namespace

absl::Status BackupSqlite(const std::string& from, const std::string& to) {
  if (access(from.c_str(), F_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no database at ", from));
  }
  if (access(to.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(absl::StrCat(to, " exists"));
  }
  // Writable, because reading a database in WAL mode may have to recover it.
  ASSIGN_OR_RETURN(const Database source, Open(from, SQLITE_OPEN_READWRITE));
  absl::StatusOr<Database> target =
      Open(to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  absl::Status status = target.status();
  if (status.ok()) status = Copy(source.get(), target->get());
  if (!status.ok()) {
    target = Database();
    unlink(to.c_str());
  }
  return status;
}

}  // namespace comera::server
