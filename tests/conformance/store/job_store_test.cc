// Checks what every JobStore must do.
#include "server/store/job_store.h"

#include <functional>
#include <memory>

#include "common/status_matchers.h"
#include "server/store/postgres_job_store.h"
#include "server/store/postgres_leadership.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/fake_job_store.h"
#include "tests/server/store/postgres_server.h"
#include "tests/server/temp_dir.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kMaxSamples = 50;

// Opens the same store again each time it is called.
using Opener = std::function<std::unique_ptr<JobStore>()>;

// The fake outlives each opening, which is a view of it.
class FakeView : public JobStore {
 public:
  explicit FakeView(std::shared_ptr<FakeJobStore> fake)
      : fake_(std::move(fake)) {}
  absl::StatusOr<std::vector<JobRecord>> LoadJobs() override {
    return fake_->LoadJobs();
  }
  absl::Status Commit(const StoreBatch& batch) override {
    return fake_->Commit(batch);
  }
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& job,
                                                       int64_t after,
                                                       int64_t last,
                                                       int limit) override {
    return fake_->ReadEvents(job, after, last, limit);
  }
  absl::StatusOr<std::vector<Document>> LoadDocuments(
      const std::string& kind) override {
    return fake_->LoadDocuments(kind);
  }
  absl::StatusOr<std::vector<AuditRow>> ReadAudit(int64_t before,
                                                  int limit) override {
    return fake_->ReadAudit(before, limit);
  }
  absl::Status Backup(const std::string& path) override {
    return fake_->Backup(path);
  }

 private:
  std::shared_ptr<FakeJobStore> fake_;
};

Opener FakeOpener() {
  auto fake = std::make_shared<FakeJobStore>(kMaxSamples);
  return [fake] { return std::make_unique<FakeView>(fake); };
}

Opener SqliteOpener() {
  auto folder = std::make_shared<TempDir>();
  return [folder]() -> std::unique_ptr<JobStore> {
    SqliteJobStore::Options options;
    options.max_samples = kMaxSamples;
    auto store = SqliteJobStore::Open(folder->path() + "/jobs.sqlite", options);
    EXPECT_OK(store);
    return store.ok() ? *std::move(store) : nullptr;
  };
}

// Every opening is another coordinator that takes over.

Opener PostgresOpener() {
  PostgresServer* server = PostgresServer::Shared();
  if (server == nullptr) return nullptr;
  const std::string url = server->NewDatabase();
  return [url]() -> std::unique_ptr<JobStore> {
    PostgresLeadership leadership(url, "here");
    // The session of the previous opening may still be ending.
    absl::StatusOr<bool> leads = false;
    while (leads.ok() && !*leads) leads = leadership.TryAcquire();
    EXPECT_OK(leads);
    PostgresJobStore::Options options;
    options.max_samples = kMaxSamples;
    options.term = leadership.term();
    auto store = PostgresJobStore::Open(url, options);
    EXPECT_OK(store);
    return store.ok() ? *std::move(store) : nullptr;
  };
}

struct StoreKind {
  const char* name;
  Opener (*opener)();
};

class JobStoreTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    open_ = GetParam().opener();
    if (open_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    store_ = open_();
    ASSERT_NE(store_, nullptr);
  }

  void Reopen() {
    store_.reset();
    store_ = open_();
  }

  static JobRecord Record(const std::string& name, int64_t serial,
                          const std::string& request_id = "") {
    JobRecord record;
    record.mutable_job()->set_name(name);
    record.mutable_job()->set_state(v1::QUEUED);
    record.mutable_job()->set_request_id(request_id);
    record.set_serial(serial);
    return record;
  }

  static v1::JobEvent Event(const std::string& job, int64_t sequence) {
    v1::JobEvent event;
    event.set_job(job);
    event.set_sequence(sequence);
    event.mutable_state_change()->set_state(v1::RUNNING);
    return event;
  }

  static v1::JobEvent Sample(const std::string& job, int64_t sequence) {
    v1::JobEvent event;
    event.set_job(job);
    event.set_sequence(sequence);
    event.mutable_metrics()->set_step(sequence);
    return event;
  }

  std::vector<int64_t> Sequences(const std::string& job, int64_t after = 0,
                                 int64_t last = 1 << 30, int limit = 1 << 20) {
    auto events = store_->ReadEvents(job, after, last, limit);
    EXPECT_OK(events);
    std::vector<int64_t> sequences;
    for (const v1::JobEvent& event : *events) {
      EXPECT_EQ(event.job(), job);
      sequences.push_back(event.sequence());
    }
    return sequences;
  }

  Opener open_;
  std::unique_ptr<JobStore> store_;
};

TEST_P(JobStoreTest, StartsEmpty) {
  EXPECT_THAT(*store_->LoadJobs(), IsEmpty());
  EXPECT_THAT(Sequences("jobs/a"), IsEmpty());
}

TEST_P(JobStoreTest, RecordsComeBackInOrderOfAcceptance) {
  StoreBatch batch;
  batch.records = {Record("jobs/b", 1, "r"), Record("jobs/a", 2)};
  batch.records[0].mutable_job()->mutable_spec()->set_priority(7);
  batch.records[0].mutable_attempt()->add_members()->set_worker("w1");
  ASSERT_OK(store_->Commit(batch));
  Reopen();
  ASSERT_OK_AND_ASSIGN(auto records, store_->LoadJobs());
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].SerializeAsString(),
            batch.records[0].SerializeAsString());
  EXPECT_EQ(records[1].job().name(), "jobs/a");
}

TEST_P(JobStoreTest, LaterRecordReplacesEarlierOneInTheSameBatchToo) {
  StoreBatch batch;
  batch.records = {Record("jobs/a", 1), Record("jobs/a", 1)};
  batch.records[1].mutable_job()->set_state(v1::RUNNING);
  ASSERT_OK(store_->Commit(batch));
  EXPECT_EQ(store_->LoadJobs()->at(0).job().state(), v1::RUNNING);
  batch.records = {Record("jobs/a", 1)};
  ASSERT_OK(store_->Commit(batch));
  EXPECT_EQ(store_->LoadJobs()->at(0).job().state(), v1::QUEUED);
  EXPECT_THAT(*store_->LoadJobs(), SizeIs(1));
}

TEST_P(JobStoreTest, RefusedBatchLeavesNothing) {
  StoreBatch batch;
  batch.records = {Record("jobs/a", 1, "r")};
  ASSERT_OK(store_->Commit(batch));
  batch.records = {Record("jobs/b", 2), Record("jobs/c", 3, "r")};
  batch.events = {Event("jobs/b", 1)};
  EXPECT_THAT(store_->Commit(batch),
              StatusIs(absl::StatusCode::kInvalidArgument));
  batch.records = {Record("jobs/d", 1)};
  EXPECT_THAT(store_->Commit(batch),
              StatusIs(absl::StatusCode::kInvalidArgument));
  Reopen();
  EXPECT_THAT(*store_->LoadJobs(), SizeIs(1));
  EXPECT_THAT(Sequences("jobs/b"), IsEmpty());
  // The store keeps working.
  batch.records = {Record("jobs/b", 2)};
  EXPECT_OK(store_->Commit(batch));
}

TEST_P(JobStoreTest, EventsArePagedAndApart) {
  StoreBatch batch;
  for (int64_t i = 1; i <= 5; ++i) {
    batch.events.push_back(Event("jobs/a", i));
    batch.events.push_back(Event("jobs/aa", i));
  }
  ASSERT_OK(store_->Commit(batch));
  Reopen();
  EXPECT_THAT(Sequences("jobs/a"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Sequences("jobs/a", 2), ElementsAre(3, 4, 5));
  EXPECT_THAT(Sequences("jobs/a", 2, 4), ElementsAre(3, 4));
  EXPECT_THAT(Sequences("jobs/a", 1, 5, 2), ElementsAre(2, 3));
  EXPECT_THAT(Sequences("jobs/a", 5), IsEmpty());
}

TEST_P(JobStoreTest, RepeatedEventChangesNothing) {
  StoreBatch batch;
  batch.events = {Event("jobs/a", 1)};
  ASSERT_OK(store_->Commit(batch));
  batch.events[0].mutable_state_change()->set_state(v1::FAILED);
  ASSERT_OK(store_->Commit(batch));
  EXPECT_EQ(store_->ReadEvents("jobs/a", 0, 9, 9)->at(0).state_change().state(),
            v1::RUNNING);
}

TEST_P(JobStoreTest, SamplesAreThinnedOtherEventsKept) {
  for (int64_t first = 1; first <= 1000; first += 20) {
    StoreBatch batch;
    for (int64_t i = first; i < first + 20; ++i) {
      batch.events.push_back(i % 100 == 0 ? Event("jobs/a", i)
                                          : Sample("jobs/a", i));
    }
    ASSERT_OK(store_->Commit(batch));
    // Counts survive any number of openings.
    if (first == 501) Reopen();
  }
  const std::vector<int64_t> sequences = Sequences("jobs/a");
  EXPECT_LE(sequences.size(), static_cast<size_t>(kMaxSamples + 10));
  EXPECT_GE(sequences.size(), static_cast<size_t>(kMaxSamples / 2));
  for (int64_t i = 100; i <= 1000; i += 100) {
    EXPECT_THAT(sequences, ::testing::Contains(i));
  }
  EXPECT_THAT(sequences, ::testing::Contains(1));
  EXPECT_THAT(sequences, ::testing::Contains(999));
}

TEST_P(JobStoreTest, DeletedJobIsForgottenWithItsEvents) {
  StoreBatch batch;
  batch.records = {Record("jobs/a", 1, "r"), Record("jobs/ab", 2)};
  batch.events = {Event("jobs/a", 1), Event("jobs/ab", 1)};
  ASSERT_OK(store_->Commit(batch));
  StoreBatch deletion;
  deletion.deleted_jobs = {"jobs/a", "jobs/never"};
  ASSERT_OK(store_->Commit(deletion));
  Reopen();
  ASSERT_THAT(*store_->LoadJobs(), SizeIs(1));
  EXPECT_THAT(Sequences("jobs/a"), IsEmpty());
  EXPECT_THAT(Sequences("jobs/ab"), ElementsAre(1));
  // Its name, serial and request id can be used again.
  batch.records.resize(1);
  batch.events.resize(1);
  ASSERT_OK(store_->Commit(batch));
  EXPECT_THAT(Sequences("jobs/a"), ElementsAre(1));
}

TEST_P(JobStoreTest, DocumentsAreReplacedAndDeletedByKindAndName) {
  StoreBatch batch;
  batch.documents = {{"queue", "b", "1"},
                     {"queue", "a", std::string("\0x", 2)},
                     {"token", "a", ""},
                     {"queue", "b", "2"}};
  ASSERT_OK(store_->Commit(batch));
  Reopen();
  const auto queues = *store_->LoadDocuments("queue");
  ASSERT_THAT(queues, SizeIs(2));
  EXPECT_EQ(queues[0].name, "a");
  EXPECT_EQ(queues[0].body, std::string("\0x", 2));
  EXPECT_EQ(queues[1].name, "b");
  EXPECT_EQ(queues[1].body, "2");
  batch.documents = {{"queue", "a", std::nullopt},
                     {"queue", "never", std::nullopt}};
  ASSERT_OK(store_->Commit(batch));
  EXPECT_THAT(*store_->LoadDocuments("queue"), SizeIs(1));
  EXPECT_THAT(*store_->LoadDocuments("token"), SizeIs(1));
  EXPECT_THAT(*store_->LoadDocuments("none"), IsEmpty());
  const auto all = *store_->LoadDocuments("");
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].kind, "queue");
  EXPECT_EQ(all[1].kind, "token");
}

TEST_P(JobStoreTest, AuditLogIsReadNewestFirst) {
  EXPECT_THAT(*store_->ReadAudit(0, 10), IsEmpty());
  for (int i = 0; i < 3; ++i) {
    StoreBatch batch;
    batch.audit = {{0, absl::FromUnixMicros(i), std::string(1, 'a' + i)}};
    ASSERT_OK(store_->Commit(batch));
  }
  Reopen();
  const auto newest = *store_->ReadAudit(0, 2);
  ASSERT_THAT(newest, SizeIs(2));
  EXPECT_EQ(newest[0].entry, "c");
  EXPECT_EQ(newest[0].time, absl::FromUnixMicros(2));
  EXPECT_EQ(newest[1].entry, "b");
  const auto rest = *store_->ReadAudit(newest[1].id, 10);
  ASSERT_THAT(rest, SizeIs(1));
  EXPECT_EQ(rest[0].entry, "a");
}

TEST_P(JobStoreTest, BackupIsAStoreWithAllOfIt) {
  const TempDir folder;
  const std::string path = folder.path() + "/backup.sqlite";
  StoreBatch batch;
  batch.records = {Record("jobs/a", 1, "r"), Record("jobs/b", 2)};
  batch.events = {Event("jobs/a", 1), Sample("jobs/a", 2), Event("jobs/b", 1)};
  batch.documents = {{"queue", "q", "1"}, {"token", "t", "2"}};
  batch.audit = {{0, absl::FromUnixMicros(1), "x"},
                 {0, absl::FromUnixMicros(2), "y"}};
  ASSERT_OK(store_->Commit(batch));
  ASSERT_OK(store_->Backup(path));
  // Later records are not in the backup, and it is not overwritten.
  StoreBatch later;
  later.records = {Record("jobs/c", 3)};
  ASSERT_OK(store_->Commit(later));
  EXPECT_THAT(store_->Backup(path), StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_OK_AND_ASSIGN(store_, SqliteJobStore::Open(path, {}));
  const auto records = *store_->LoadJobs();
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].SerializeAsString(),
            batch.records[0].SerializeAsString());
  EXPECT_THAT(Sequences("jobs/a"), ElementsAre(1, 2));
  EXPECT_THAT(Sequences("jobs/b"), ElementsAre(1));
  EXPECT_THAT(*store_->LoadDocuments(""), SizeIs(2));
  const auto audit = *store_->ReadAudit(0, 10);
  ASSERT_THAT(audit, SizeIs(2));
  EXPECT_EQ(audit[0].entry, "y");
  EXPECT_OK(store_->Compact());
}

INSTANTIATE_TEST_SUITE_P(Stores, JobStoreTest,
                         ::testing::Values(StoreKind{"Fake", FakeOpener},
                                           StoreKind{"Sqlite", SqliteOpener},
                                           StoreKind{"Postgres",
                                                     PostgresOpener}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace comera::server
