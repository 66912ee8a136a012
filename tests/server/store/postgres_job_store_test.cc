// What is PostgreSQL's own: leadership, followers, lost connections.
#include "server/store/postgres_job_store.h"

#include "common/status_matchers.h"
#include "server/store/postgres_leadership.h"
#include "server/store/postgres_schema.h"
#include "tests/server/store/postgres_server.h"

namespace comera::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class PostgresJobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PostgresServer::Shared();
    if (server_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = server_->NewDatabase();
  }

  // Waits while the session of the leader before is ending.
  static void Acquire(PostgresLeadership& leadership) {
    absl::StatusOr<bool> leads = false;
    while (leads.ok() && !*leads) leads = leadership.TryAcquire();
    ASSERT_OK(leads);
  }

  std::unique_ptr<PostgresJobStore> Open(int64_t term) {
    PostgresJobStore::Options options;
    options.term = term;
    auto store = PostgresJobStore::Open(url_, options);
    EXPECT_OK(store);
    return *std::move(store);
  }

  static StoreBatch OneJob(const std::string& name, int64_t serial) {
    StoreBatch batch;
    JobRecord& record = batch.records.emplace_back();
    record.mutable_job()->set_name(name);
    record.set_serial(serial);
    return batch;
  }

  PostgresServer* server_ = nullptr;
  std::string url_;
};

TEST(PostgresUrlTest, PasswordsAreRefused) {
  EXPECT_OK(CheckPostgresUrl("postgres://db.example/comera"));
  EXPECT_OK(CheckPostgresUrl("postgresql://me@db:5432/comera?sslmode=require"));
  for (const char* url :
       {"postgres://me:secret@db/comera", "postgres://db/c?password=secret",
        "postgres://db/c?sslmode=require&password=secret",
        "postgres://db/c?pass%77ord=secret", "postgres://db?sslpassword=x"}) {
    EXPECT_THAT(CheckPostgresUrl(url),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("PGPASSFILE"), Not(HasSubstr(url)),
                               Not(HasSubstr("secret")))));
  }
  EXPECT_THAT(CheckPostgresUrl("mysql://db/comera"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(PostgresJobStoreTest, OneLeadsUntilItGoes) {
  auto first = std::make_unique<PostgresLeadership>(url_, "a:1");
  PostgresLeadership second(url_, "b:2");
  ASSERT_TRUE(*first->TryAcquire());
  EXPECT_FALSE(*second.TryAcquire());
  ASSERT_OK_AND_ASSIGN(const auto leader, second.ReadLeader());
  EXPECT_EQ(leader.address, "a:1");
  EXPECT_EQ(leader.term, first->term());
  EXPECT_OK(first->Check());
  first.reset();
  Acquire(second);
  EXPECT_EQ(second.term(), leader.term + 1);
}

TEST_F(PostgresJobStoreTest, DeposedLeaderCannotCommit) {
  PostgresLeadership first(url_, "a:1");
  ASSERT_TRUE(*first.TryAcquire());
  auto old_store = Open(first.term());
  ASSERT_OK(old_store->Commit(OneJob("jobs/a", 1)));
  // Its lock goes, but it does not know.
  server_->DropSessions();
  PostgresLeadership second(url_, "b:2");
  Acquire(second);
  // The first call finds the broken connection, the second the new leader.
  EXPECT_THAT(old_store->Commit(OneJob("jobs/b", 2)),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(old_store->Commit(OneJob("jobs/b", 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another coordinator leads")));
  EXPECT_FALSE(first.Check().ok());
  auto store = Open(second.term());
  EXPECT_OK(store->Commit(OneJob("jobs/c", 2)));
  EXPECT_THAT(*store->LoadJobs(), SizeIs(2));
}

TEST_F(PostgresJobStoreTest, WithoutLeadershipItOnlyReads) {
  auto store = Open(0);
  EXPECT_THAT(store->Commit(OneJob("jobs/a", 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(*store->LoadJobs(), IsEmpty());
}

TEST_F(PostgresJobStoreTest, FollowersReadWhatChanged) {
  PostgresLeadership leadership(url_, "a:1");
  ASSERT_TRUE(*leadership.TryAcquire());
  auto leader = Open(leadership.term());
  auto follower = Open(0);
  ASSERT_OK(leader->Commit(OneJob("jobs/a", 1)));
  ASSERT_OK(leader->Commit(OneJob("jobs/b", 2)));
  ASSERT_OK_AND_ASSIGN(auto changes, follower->ReadChanges(0));
  EXPECT_THAT(changes.records, SizeIs(2));
  const int64_t seen = changes.change;
  ASSERT_OK_AND_ASSIGN(changes, follower->ReadChanges(seen));
  EXPECT_THAT(changes.records, IsEmpty());
  EXPECT_EQ(changes.change, seen);
  StoreBatch batch = OneJob("jobs/b", 2);
  batch.deleted_jobs = {"jobs/a"};
  ASSERT_OK(leader->Commit(batch));
  ASSERT_OK_AND_ASSIGN(changes, follower->ReadChanges(seen));
  ASSERT_THAT(changes.records, SizeIs(1));
  EXPECT_EQ(changes.records[0].job().name(), "jobs/b");
  EXPECT_THAT(changes.deleted_jobs, ElementsAre("jobs/a"));
}

TEST_F(PostgresJobStoreTest, LostConnectionIsUnavailableAndComesBack) {
  PostgresLeadership leadership(url_, "a:1");
  ASSERT_TRUE(*leadership.TryAcquire());
  auto store = Open(leadership.term());
  ASSERT_OK(store->Commit(OneJob("jobs/a", 1)));
  ASSERT_OK(server_->Crash());
  EXPECT_THAT(store->LoadJobs(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(*store->LoadJobs(), SizeIs(1));
  // The lock went with its session, though nobody took it.
  EXPECT_THAT(leadership.Check(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(leadership.Check(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(PostgresJobStoreTest, NewerSchemaIsRefused) {
  Open(0);
  PostgresConnection connection(url_, {});
  ASSERT_OK(connection.Transact([](pqxx::work& work) {
    work.exec("INSERT INTO schema_version VALUES (99)");
    return absl::OkStatus();
  }));
  EXPECT_THAT(PostgresJobStore::Open(url_, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("99"), HasSubstr("newer"))));
}

TEST_F(PostgresJobStoreTest, InterruptedMigrationIsTakenUpAgain) {
  PostgresConnection connection(url_, {});
  // Half of a step in a transaction that does not end well.
  EXPECT_FALSE(connection
                   .Transact([](pqxx::work& work) {
                     work.exec("CREATE TABLE jobs (name text)");
                     return absl::UnavailableError("killed");
                   })
                   .ok());
  EXPECT_THAT(*Open(0)->LoadJobs(), IsEmpty());
}

TEST_F(PostgresJobStoreTest, UnreachableServerIsUnavailable) {
  EXPECT_THAT(PostgresJobStore::Open("postgres://%2Fnowhere/x", {}),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(PostgresJobStoreTest, DamagedRecordIsDataLossWithTheJobsName) {
  PostgresLeadership leadership(url_, "a:1");
  ASSERT_TRUE(*leadership.TryAcquire());
  auto store = Open(leadership.term());
  ASSERT_OK(store->Commit(OneJob("jobs/a", 1)));
  PostgresConnection connection(url_, {});
  ASSERT_OK(connection.Transact([](pqxx::work& work) {
    work.exec("UPDATE jobs SET record = '\\xffffff'");
    return absl::OkStatus();
  }));
  EXPECT_THAT(store->LoadJobs(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("jobs/a")));
}

}  // namespace
}  // namespace comera::server
