// A database that the first version of the schema wrote opens under this one.
#include <sqlite3.h>

#include <filesystem>

#include "common/files.h"
#include "common/status_matchers.h"
#include "server/store/sqlite_job_store.h"
#include "server/store/sqlite_schema.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

// Rebuilds the database out of the dump: see the file for where it is from.
void WriteFirstSchema(const std::string& path) {
  ASSERT_OK_AND_ASSIGN(
      const std::string sql,
      ReadFile(std::string(std::getenv("TEST_SRCDIR")) +
               "/comera/tests/server/store/testdata/first_schema.sql"));
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_OK(SqliteExec(db, sql.c_str()));
  EXPECT_EQ(*SqliteNumber(db, "SELECT max(version) FROM schema_version"), 1);
  sqlite3_close(db);
}

class StoreUpgradeTest : public ServerFixture {
 protected:
  // In place of the fixture's own, empty database.
  void StartWithFirstSchema() {
    StopServer();
    for (const char* end : {"", "-wal", "-shm"}) {
      std::filesystem::remove(Database() + end);
    }
    WriteFirstSchema(Database());
    StartServer();
  }
  std::string Database() const { return options_.data_dir + "/jobs.sqlite"; }
};

TEST_F(StoreUpgradeTest, DatabaseOfTheFirstSchemaServesItsJobs) {
  StartWithFirstSchema();
  v1::ListJobsResponse list;
  ASSERT_TRUE(training_->ListJobs(Context().get(), {}, &list).ok());
  ASSERT_EQ(list.jobs_size(), 2);
  // Newest first.
  EXPECT_EQ(list.jobs(0).name(), "jobs/waits");
  EXPECT_EQ(list.jobs(0).state(), v1::QUEUED);
  EXPECT_EQ(list.jobs(1).name(), "jobs/done");
  EXPECT_EQ(list.jobs(1).outcome(), v1::TARGET_MET);
  EXPECT_EQ(list.jobs(1).spec().display_name(), "of the first schema");
  EXPECT_EQ(list.jobs(1).spec().resources().processes(), 1);
  grpc::Status status;
  const auto events = Watch("jobs/done", 0, &status);
  EXPECT_TRUE(status.ok());
  // The job, then its events.
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1].event().state_change().state(), v1::QUEUED);
  EXPECT_EQ(events[2].event().metrics().loss(), 2.5);
  EXPECT_EQ(events[3].event().state_change().state(), v1::SUCCEEDED);
  // The request of then is known, and the queue goes on.
  EXPECT_EQ(Create(list.jobs(0).spec(), "first-request").name(), "jobs/waits");
  EXPECT_EQ(Cancel("jobs/waits").state(), v1::CANCELLED);
  // And again, now of the newest schema.
  RestartServer();
  EXPECT_EQ(Get("jobs/waits").state(), v1::CANCELLED);
}

// A crash between any two statements of a migration: SQLite undoes the step
// that was under way, and the next start goes on from there.
TEST_F(StoreUpgradeTest, InterruptedMigrationIsTakenUpAgain) {
  for (int steps = 1; steps < NewestSchemaVersion(); ++steps) {
    const std::string path =
        folder_.path() + "/interrupted" + std::to_string(steps);
    WriteFirstSchema(path);
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    ASSERT_OK(MigrateSchema(db, steps));
    // Half of a step, then the process ends.
    ASSERT_OK(SqliteExec(db, "BEGIN IMMEDIATE"));
    ASSERT_OK(SqliteExec(db, "CREATE TABLE half (x)"));
    ASSERT_OK(SqliteExec(db, "INSERT INTO schema_version VALUES (77)"));
    sqlite3_close(db);
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteJobStore::Open(path, {}));
    EXPECT_EQ(store->LoadJobs()->size(), 2u);
  }
}

}  // namespace
}  // namespace comera::server
