#ifndef COMERA_CLIENT_BACKUP_FILE_H_
#define COMERA_CLIENT_BACKUP_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace comera::client {

// What a backup holds.
struct BackupContents {
  // The version of the tables' schema when the backup was made.
  int64_t schema_version = 0;
  int64_t jobs = 0;
  int64_t events = 0;
};

// Reads a whole backup file (SQLite) and checks its structure; changes nothing.
// NotFound: there is no such file. DataLoss: it is damaged, or not a backup.
absl::StatusOr<BackupContents> VerifyBackup(const std::string& path);

}  // namespace comera::client

#endif  // COMERA_CLIENT_BACKUP_FILE_H_
