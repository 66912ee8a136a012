// Opens a backup with SQLite, checks its integrity and counts what it holds.

#include "client/backup_file.h"

#include <sqlite3.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace comera::client {
namespace {

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
  void operator()(sqlite3_stmt* statement) const {
    sqlite3_finalize(statement);
  }
};

// Returns the first value of the first row, as text.
absl::StatusOr<std::string> Ask(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(db, sql.c_str(), -1, &raw, nullptr);
  const std::unique_ptr<sqlite3_stmt, Close> statement(raw);
  if (code == SQLITE_OK) code = sqlite3_step(raw);
  if (code != SQLITE_ROW) return absl::DataLossError(sqlite3_errmsg(db));
  const unsigned char* text = sqlite3_column_text(raw, 0);
  return std::string(text ? reinterpret_cast<const char*>(text) : "");
}

}  // namespace

absl::StatusOr<BackupContents> VerifyBackup(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  }
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const std::unique_ptr<sqlite3, Close> db(raw);
  if (code != SQLITE_OK) {
    return absl::DataLossError(absl::StrCat(path, ": ", sqlite3_errmsg(raw)));
  }
  absl::StatusOr<std::string> verdict = Ask(raw, "PRAGMA integrity_check(1)");
  if (verdict.ok() && *verdict != "ok") {
    verdict = absl::DataLossError(*verdict);
  }
  BackupContents contents;
  const std::pair<const char*, int64_t*> numbers[] = {
      {"SELECT max(version) FROM schema_version", &contents.schema_version},
      {"SELECT count(*) FROM jobs", &contents.jobs},
      {"SELECT count(*) FROM events", &contents.events}};
  for (const auto& [sql, number] : numbers) {
    if (verdict.ok()) verdict = Ask(raw, sql);
    if (verdict.ok()) *number = std::strtoll(verdict->c_str(), nullptr, 10);
  }
  if (!verdict.ok()) {
    return absl::DataLossError(absl::StrCat(
        path, " is damaged or no backup: ", verdict.status().message()));
  }
  return contents;
}

}  // namespace comera::client
