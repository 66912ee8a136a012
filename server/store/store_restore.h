#ifndef COMERA_SERVER_STORE_STORE_RESTORE_H_
#define COMERA_SERVER_STORE_STORE_RESTORE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::server {

// Where a server keeps its jobs.
struct StorePlace {
  std::string data_dir;
  // Empty: the SQLite file in data_dir; else a postgres:// URL.
  std::string store_url;
};

// Writes all of a store, also one in use, to the new file `backup`.
// AlreadyExists: the file; NotFound: there is no store; otherwise the errors of
// JobStore::Backup.
absl::Status BackupStore(const StorePlace& place, const std::string& backup);

// Fills an empty store from the file of a backup, of this or an older version,
// and returns how many jobs that has. AlreadyExists: the store has jobs;
// FailedPrecondition: it is in use, or a newer version wrote the file;
// DataLoss: the file is damaged; NotFound: there is none. The store is
// unchanged after an error, and the file always.
absl::StatusOr<int64_t> RestoreStore(const StorePlace& place,
                                     const std::string& backup);

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_STORE_RESTORE_H_
