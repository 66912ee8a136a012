// Backups are whole, also of a store that is being written, and come back.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/status_matchers.h"
#include "server/store/postgres_job_store.h"
#include "server/store/postgres_leadership.h"
#include "server/store/sqlite_job_store.h"
#include "server/store/store_restore.h"
#include "tests/server/store/postgres_server.h"
#include "tests/server/temp_dir.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Job number i, with i events of which the record tells the number.
StoreBatch JobWithEvents(int i) {
  StoreBatch batch;
  JobRecord& record = batch.records.emplace_back();
  record.mutable_job()->set_name("jobs/j" + std::to_string(i));
  record.mutable_job()->set_request_id("r" + std::to_string(i));
  record.set_serial(i);
  record.set_last_sequence(i % 7 + 1);
  for (int64_t sequence = 1; sequence <= record.last_sequence(); ++sequence) {
    v1::JobEvent& event = batch.events.emplace_back();
    event.set_job(record.job().name());
    event.set_sequence(sequence);
    event.mutable_state_change()->set_state(v1::RUNNING);
  }
  return batch;
}

// Every job has all of its events: the state of one moment.
void ExpectWhole(StoreReader* store, size_t at_least) {
  ASSERT_OK_AND_ASSIGN(const auto records, store->LoadJobs());
  EXPECT_GE(records.size(), at_least);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].serial(), static_cast<int64_t>(i) + 1);
    EXPECT_THAT(*store->ReadEvents(records[i].job().name(), 0, 100, 100),
                SizeIs(records[i].last_sequence()));
  }
}

class StoreBackupTest : public ::testing::Test {
 protected:
  StoreBackupTest() : backup_(folder_.path() + "/backup.sqlite") {}

  StorePlace Sqlite(const std::string& name) const {
    StorePlace place;
    place.data_dir = folder_.path() + "/" + name;
    std::filesystem::create_directories(place.data_dir);
    return place;
  }
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(
      const StorePlace& place) {
    return SqliteJobStore::Open(place.data_dir + "/jobs.sqlite", {});
  }

  // Writes jobs without end while `body` runs.
  void WhileWriting(JobStore* store, const std::function<void()>& body) {
    for (int i = 1; i <= 50; ++i) ASSERT_OK(store->Commit(JobWithEvents(i)));
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      for (int i = 51; !stop; ++i) {
        EXPECT_OK(store->Commit(JobWithEvents(i)));
      }
    });
    body();
    stop = true;
    writer.join();
  }

  TempDir folder_;
  const std::string backup_;
};

TEST_F(StoreBackupTest, OfAStoreThatIsWrittenIsOneMomentOfIt) {
  const StorePlace place = Sqlite("a");
  ASSERT_OK_AND_ASSIGN(const auto store, Open(place));
  WhileWriting(store.get(), [&] {
    EXPECT_OK(store->Backup(backup_));
    EXPECT_OK(BackupStore(place, backup_ + "2"));
  });
  for (const std::string& path : {backup_, backup_ + "2"}) {
    const StorePlace restored =
        Sqlite("restored" + path.substr(path.size() - 1));
    ASSERT_OK(RestoreStore(restored, path));
    ASSERT_OK_AND_ASSIGN(const auto copy, Open(restored));
    ExpectWhole(copy.get(), 50);
    // And it can go on from there.
    EXPECT_OK(copy->Commit(
        JobWithEvents(static_cast<int>(copy->LoadJobs()->size()) + 1)));
  }
}

TEST_F(StoreBackupTest, RestoreNeverWritesOverJobs) {
  const StorePlace place = Sqlite("a");
  ASSERT_OK_AND_ASSIGN(const auto store, Open(place));
  ASSERT_OK(store->Commit(JobWithEvents(1)));
  ASSERT_OK(store->Backup(backup_));
  EXPECT_THAT(RestoreStore(place, backup_),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(BackupStore(place, backup_),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(StoreBackupTest, BadFilesAreRefusedAndLeaveNothing) {
  const StorePlace place = Sqlite("a");
  EXPECT_THAT(RestoreStore(place, backup_),
              StatusIs(absl::StatusCode::kNotFound));
  std::ofstream(backup_) << std::string(8192, '#');
  EXPECT_THAT(RestoreStore(place, backup_),
              StatusIs(absl::StatusCode::kDataLoss));
  for (const auto& entry :
       std::filesystem::directory_iterator(place.data_dir)) {
    EXPECT_EQ(entry.path().filename(), "lock");
  }
  EXPECT_THAT(BackupStore(place, backup_ + "2"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(StoreBackupTest, MovesFromSqliteToPostgresAndBack) {
  PostgresServer* server = PostgresServer::Shared();
  if (server == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  StorePlace postgres = Sqlite("shared");
  postgres.store_url = server->NewDatabase();
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Open(Sqlite("a")));
    for (int i = 1; i <= 20; ++i) ASSERT_OK(store->Commit(JobWithEvents(i)));
    ASSERT_OK(store->Backup(backup_));
  }
  ASSERT_OK_AND_ASSIGN(const int64_t jobs, RestoreStore(postgres, backup_));
  EXPECT_EQ(jobs, 20);
  EXPECT_THAT(RestoreStore(postgres, backup_),
              StatusIs(absl::StatusCode::kAlreadyExists));

  auto leadership =
      std::make_unique<PostgresLeadership>(postgres.store_url, "here");
  absl::StatusOr<bool> leads = false;
  while (leads.ok() && !*leads) leads = leadership->TryAcquire();
  ASSERT_OK(leads);
  // Not beside a coordinator that leads.
  EXPECT_THAT(
      RestoreStore(postgres, backup_),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in use")));
  PostgresJobStore::Options options;
  options.term = leadership->term();
  ASSERT_OK_AND_ASSIGN(const auto store,
                       PostgresJobStore::Open(postgres.store_url, options));
  ExpectWhole(store.get(), 20);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 21; !stop; ++i) EXPECT_OK(store->Commit(JobWithEvents(i)));
  });
  EXPECT_OK(BackupStore(postgres, backup_ + "2"));
  stop = true;
  writer.join();
  const StorePlace back = Sqlite("back");
  ASSERT_OK(RestoreStore(back, backup_ + "2"));
  ASSERT_OK_AND_ASSIGN(const auto copy, Open(back));
  ExpectWhole(copy.get(), 20);
}

}  // namespace
}  // namespace comera::server
