// Copies of SQLite files while they are written.
#ifndef COMERA_SERVER_STORE_SQLITE_BACKUP_H_
#define COMERA_SERVER_STORE_SQLITE_BACKUP_H_

#include <string>

#include "absl/status/status.h"

namespace comera::server {

// Writes the database at `from`, which others may be writing, in one consistent
// state to a new file `to`, and syncs that to the disk. NotFound: `from`;
// AlreadyExists: `to`; otherwise the errors of SqliteError. Nothing is left
// after an error.
absl::Status BackupSqlite(const std::string& from, const std::string& to);

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_SQLITE_BACKUP_H_
