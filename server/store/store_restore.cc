// Writes backups of a store and fills an empty store from one.
#include "server/store/store_restore.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "server/runtime/data_dir_lock.h"
#include "server/runtime/file_handle.h"
#include "server/store/postgres_job_store.h"
#include "server/store/postgres_leadership.h"
#include "server/store/sqlite_backup.h"
#include "server/store/sqlite_job_store.h"

namespace comera::server {
namespace {

constexpr char kRestorer[] = "a restore that is under way";

std::string DatabasePath(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/jobs.sqlite");
}

// Opens a copy of the backup at `copy` and reads all of its jobs.
absl::StatusOr<std::unique_ptr<SqliteJobStore>> OpenCopy(
    const std::string& backup, const std::string& copy, int64_t* jobs) {
  // What an interrupted restore left.
  unlink(copy.c_str());
  RETURN_IF_ERROR(BackupSqlite(backup, copy));
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteJobStore> store,
                   SqliteJobStore::Open(copy, {}));
  ASSIGN_OR_RETURN(const std::vector<JobRecord> records, store->LoadJobs());
  *jobs = static_cast<int64_t>(records.size());
  return store;
}

void RemoveDatabase(const std::string& path) {
  for (const char* end : {"", "-wal", "-shm", "-journal"}) {
    unlink(absl::StrCat(path, end).c_str());
  }
}

absl::Status PublishSqlite(const std::string& copy, const std::string& path) {
  if (rename(copy.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, path);
  ASSIGN_OR_RETURN(const FileHandle folder,
                   FileHandle::Open(path.substr(0, path.rfind('/')), O_RDONLY));
  if (fsync(folder.fd()) != 0) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

absl::Status FillPostgres(const std::string& url, StoreReader* from) {
  PostgresLeadership leadership(url, kRestorer);
  ASSIGN_OR_RETURN(const bool leads, leadership.TryAcquire());
  if (!leads) {
    return absl::FailedPreconditionError(
        "the database is in use: stop all coordinators first, and wait some "
        "seconds if one of them crashed");
  }
  PostgresJobStore::Options options;
  options.term = leadership.term();
  ASSIGN_OR_RETURN(const auto store, PostgresJobStore::Open(url, options));
  return store->Fill(from);
}

}  // namespace

absl::Status BackupStore(const StorePlace& place, const std::string& backup) {
  if (place.store_url.empty()) {
    return BackupSqlite(DatabasePath(place.data_dir), backup);
  }
  ASSIGN_OR_RETURN(const auto store,
                   PostgresJobStore::Open(place.store_url, {}));
  return store->Backup(backup);
}

absl::StatusOr<int64_t> RestoreStore(const StorePlace& place,
                                     const std::string& backup) {
  const bool sqlite = place.store_url.empty();
  ASSIGN_OR_RETURN(const DataDirLock lock,
                   DataDirLock::Acquire(place.data_dir));
  const std::string path = DatabasePath(place.data_dir);
  for (const char* end : {"", "-wal", "-journal", "-shm"}) {
    // A log left behind would be replayed into the restored database.
    const std::string old = absl::StrCat(path, end);
    if (!sqlite || access(old.c_str(), F_OK) != 0) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(old,
                     " exists: restore into an empty folder, or move all "
                     "of ",
                     path, "* away first"));
  }
  const std::string copy = absl::StrCat(path, ".restoring");
  int64_t jobs = 0;
  auto store = OpenCopy(backup, copy, &jobs);
  absl::Status status = store.status();
  if (status.ok() && !sqlite) {
    status = FillPostgres(place.store_url, store->get());
  }
  // Closed, so that the file is whole without its log.
  store = absl::CancelledError();
  if (status.ok() && sqlite) status = PublishSqlite(copy, path);
  RemoveDatabase(copy);
  RETURN_IF_ERROR(status);
  return jobs;
}

}  // namespace comera::server
