// What is SQLite's own: migrations and damaged files.
#include "server/store/sqlite_job_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "common/status_matchers.h"
#include "server/store/sqlite_schema.h"
#include "tests/server/temp_dir.h"

namespace comera::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class SqliteJobStoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open() {
    return SqliteJobStore::Open(path_, {});
  }

  void WithDatabase(const std::function<void(sqlite3*)>& use) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    use(db);
    sqlite3_close(db);
  }

  // A store with enough in it to fill several pages.
  void Fill() {
    ASSERT_OK_AND_ASSIGN(auto store, Open());
    StoreBatch batch;
    for (int i = 1; i <= 200; ++i) {
      JobRecord record;
      record.mutable_job()->set_name("jobs/j" + std::to_string(i));
      record.mutable_job()->set_reason(std::string(300, 'x'));
      record.set_serial(i);
      batch.records.push_back(record);
    }
    ASSERT_OK(store->Commit(batch));
  }

  TempDir folder_;
  const std::string path_ = folder_.path() + "/jobs.sqlite";
};

// The errno that SQLite's writes fail with; 0: they do not.
int write_error = 0;

// The writes of SQLite's own file system layer for as long as this lives.
class FailingWrites {
 public:
  FailingWrites() { Replace(Write, WriteAt); }
  ~FailingWrites() {
    write_error = 0;
    Replace(nullptr, nullptr);
  }

 private:
  static ssize_t Write(int fd, const void* bytes, size_t size) {
    if (write_error == 0) return ::write(fd, bytes, size);
    errno = write_error;
    return -1;
  }
  static ssize_t WriteAt(int fd, const void* bytes, size_t size, off_t offset) {
    if (write_error == 0) return ::pwrite(fd, bytes, size, offset);
    errno = write_error;
    return -1;
  }
  // Null: the system's.
  static void Replace(ssize_t (*write)(int, const void*, size_t),
                      ssize_t (*write_at)(int, const void*, size_t, off_t)) {
    sqlite3_vfs* const vfs = sqlite3_vfs_find(nullptr);
    ASSERT_EQ(vfs->xSetSystemCall(vfs, "write",
                                  reinterpret_cast<sqlite3_syscall_ptr>(write)),
              SQLITE_OK);
    for (const char* name : {"pwrite", "pwrite64"}) {
      ASSERT_EQ(vfs->xSetSystemCall(
                    vfs, name, reinterpret_cast<sqlite3_syscall_ptr>(write_at)),
                SQLITE_OK);
    }
  }
};

// SQLite knows ENOSPC only, and calls the other an error of the device.
TEST_F(SqliteJobStoreTest, AFullQuotaIsAFullDisk) {
  Fill();
  const FailingWrites writes;
  ASSERT_OK_AND_ASSIGN(auto store, Open());
  StoreBatch batch;
  JobRecord record;
  record.mutable_job()->set_name("jobs/late");
  record.set_serial(201);
  batch.records.push_back(record);
  for (const auto& [error, code] :
       {std::pair{EDQUOT, absl::StatusCode::kResourceExhausted},
        {ENOSPC, absl::StatusCode::kResourceExhausted},
        {EIO, absl::StatusCode::kUnavailable}}) {
    write_error = error;
    EXPECT_THAT(store->Commit(batch), StatusIs(code)) << error;
    EXPECT_THAT(*store->LoadJobs(), SizeIs(200));
  }
  // There is room again.
  write_error = 0;
  ASSERT_OK(store->Commit(batch));
  EXPECT_THAT(*store->LoadJobs(), SizeIs(201));
}

TEST_F(SqliteJobStoreTest, MigratesFromEveryVersionWithItsData) {
  for (int version = 0; version < NewestSchemaVersion(); ++version) {
    SCOPED_TRACE(version);
    std::filesystem::remove(path_);
    WithDatabase([&](sqlite3* db) {
      ASSERT_OK(MigrateSchema(db, version));
      if (version == 0) return;
      JobRecord record;
      record.mutable_job()->set_name("jobs/old");
      record.set_serial(1);
      sqlite3_stmt* insert = nullptr;
      ASSERT_EQ(sqlite3_prepare_v2(
                    db, "INSERT INTO jobs VALUES ('jobs/old', 1, 1, NULL, ?)",
                    -1, &insert, nullptr),
                SQLITE_OK);
      const std::string bytes = record.SerializeAsString();
      sqlite3_bind_blob(insert, 1, bytes.data(), bytes.size(),
                        SQLITE_TRANSIENT);
      EXPECT_EQ(sqlite3_step(insert), SQLITE_DONE);
      sqlite3_finalize(insert);
    });
    ASSERT_OK_AND_ASSIGN(auto store, Open());
    EXPECT_THAT(*store->LoadJobs(), SizeIs(version == 0 ? 0 : 1));
  }
}

TEST_F(SqliteJobStoreTest, RefusesNewerSchema) {
  ASSERT_OK(Open());
  WithDatabase([](sqlite3* db) {
    ASSERT_OK(SqliteExec(db, "INSERT INTO schema_version VALUES (99)"));
  });
  EXPECT_THAT(Open(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("99"), HasSubstr("newer comera-server"),
                             HasSubstr(path_))));
}

TEST_F(SqliteJobStoreTest, JunkFileIsDataLoss) {
  std::ofstream(path_) << std::string(8192, '#');
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)));
}

TEST_F(SqliteJobStoreTest, DamagedPagesAreDataLoss) {
  Fill();
  const auto size = std::filesystem::file_size(path_);
  ASSERT_GT(size, 5u * 4096);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  for (size_t page = 3; page * 4096 < size; ++page) {
    file.seekp(page * 4096);
    file << std::string(200, '\xff');
  }
  file.close();
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(SqliteJobStoreTest, TruncatedFileIsDataLoss) {
  Fill();
  std::filesystem::resize_file(path_, 2 * 4096);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(SqliteJobStoreTest, DamagedRecordIsDataLossWithTheJobsName) {
  Fill();
  WithDatabase([](sqlite3* db) {
    ASSERT_OK(SqliteExec(
        db, "UPDATE jobs SET record = x'ffffff' WHERE name = 'jobs/j7'"));
  });
  ASSERT_OK_AND_ASSIGN(auto store, Open());
  EXPECT_THAT(store->LoadJobs(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("jobs/j7")));
}

TEST_F(SqliteJobStoreTest, FolderThatIsNotThereIsUnavailable) {
  EXPECT_THAT(SqliteJobStore::Open(folder_.path() + "/none/jobs.sqlite", {}),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace comera::server
