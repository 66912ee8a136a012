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

  // Waits until the lease of the leader before has run out.
  static void Acquire(PostgresLeadership& leadership) {
    absl::StatusOr<bool> leads = false;
    while (leads.ok() && !*leads) leads = leadership.TryAcquire();
    ASSERT_OK(leads);
  }
  static LeaderLease::Options Short() {
    LeaderLease::Options options;
    options.length = absl::Milliseconds(200);
    return options;
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

TEST(PostgresUrlTest, AConnectionOffTheMachineMustVerifyTheServer) {
  for (const char* url :
       {"postgres://db.example/comera", "postgres://me@10.0.0.3:5432/comera",
        "postgresql://db/comera?sslmode=require",
        "postgres:///comera?host=db.example"}) {
    EXPECT_TRUE(PostgresUrlIsExposed(url)) << url;
  }
  for (const char* url :
       {"postgres://db.example/comera?sslmode=verify-full",
        "postgres://me@127.0.0.1:5432/comera", "postgres://localhost/comera",
        "postgres://me@%2Frun%2Fpostgresql/comera", "postgres:///comera",
        "postgres:///comera?host=/run/postgresql"}) {
    EXPECT_FALSE(PostgresUrlIsExposed(url)) << url;
  }
}

TEST_F(PostgresJobStoreTest, OneLeadsUntilItGoes) {
  auto first = std::make_unique<PostgresLeadership>(url_, "a:1");
  PostgresLeadership second(url_, "b:2");
  ASSERT_TRUE(*first->TryAcquire());
  EXPECT_FALSE(*second.TryAcquire());
  const LeaseRow leader = second.last_row();
  EXPECT_EQ(leader.address, "a:1");
  EXPECT_EQ(leader.term, first->term());
  EXPECT_EQ(leader.secret, first->secret());
  first->Beat();
  EXPECT_OK(first->Renew());
  first.reset();
  ASSERT_TRUE(*second.TryAcquire());
  EXPECT_GT(second.term(), leader.term);
  // Workers remember terms when the database is a new one.
  EXPECT_GE(leader.term, 1700000000);
}

// Whatever becomes of the sessions: a stopped process keeps its own.
TEST_F(PostgresJobStoreTest, ASilentLeadersLeaseRunsOut) {
  PostgresLeadership first(url_, "a:1", Short());
  PostgresLeadership second(url_, "b:2", Short());
  ASSERT_TRUE(*first.TryAcquire());
  EXPECT_TRUE(first.Holds());
  Acquire(second);
  EXPECT_FALSE(first.Holds());
  first.Beat();
  EXPECT_THAT(first.Renew(), StatusIs(absl::StatusCode::kFailedPrecondition));
  first.GiveUp();
  EXPECT_FALSE(*first.TryAcquire());
}

// One that was renewed late must not count: the row has a new owner.
TEST_F(PostgresJobStoreTest, ALateRenewalFails) {
  PostgresLease first(url_, absl::Seconds(2));
  PostgresLease second(url_, absl::Seconds(2));
  ASSERT_OK_AND_ASSIGN(LeaseRow row, first.Read());
  ASSERT_OK_AND_ASSIGN(
      const int64_t term,
      first.Take(row, "a:1", "s", absl::ZeroDuration(), false));
  EXPECT_TRUE(*first.Renew(term, absl::ZeroDuration()));
  // The row that it saw is not the present one.
  EXPECT_EQ(*second.Take(row, "b:2", "t", absl::Seconds(9), false), 0);
  ASSERT_OK_AND_ASSIGN(row, second.Read());
  EXPECT_TRUE(row.expired);
  EXPECT_GT(*second.Take(row, "b:2", "t", absl::Seconds(9), false), term);
  EXPECT_FALSE(*first.Renew(term, absl::Seconds(9)));
  ASSERT_OK(first.GiveBack(term));
  ASSERT_OK_AND_ASSIGN(row, second.Read());
  EXPECT_FALSE(row.expired);
}

// A leader of an earlier version holds a session lock and has no lease.
TEST_F(PostgresJobStoreTest, LeadersOfEarlierVersionsAreWaitedFor) {
  Open(0);
  pqxx::connection former(url_);
  pqxx::nontransaction session(former);
  session.exec("SELECT pg_advisory_lock(7165065814647844204)");
  PostgresLeadership leadership(url_, "a:1");
  EXPECT_FALSE(*leadership.TryAcquire());
  session.exec("SELECT pg_advisory_unlock(7165065814647844204)");
  EXPECT_TRUE(*leadership.TryAcquire());
  // It takes over where it can, and is noticed.
  session.exec("UPDATE coordinator SET epoch = epoch + 1");
  leadership.Beat();
  EXPECT_THAT(leadership.Renew(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

// A stopped coordinator may have a commit under way, whose row its successor
// needs.
TEST_F(PostgresJobStoreTest, AStoppedCommitDoesNotBlockTheSuccessor) {
  PostgresLeadership first(url_, "a:1", Short());
  ASSERT_TRUE(*first.TryAcquire());
  PostgresConnection stopped(url_, {});
  PostgresLeadership second(url_, "b:2");
  EXPECT_THAT(stopped.Transact([&](pqxx::work& work) {
    work.exec("UPDATE coordinator SET change = change + 1");
    absl::StatusOr<bool> leads = false;
    while (!leads.ok() || !*leads) leads = second.TryAcquire();
    return absl::OkStatus();
  }),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(PostgresJobStoreTest, EveryQueryHasADeadline) {
  PostgresConnection::Options options;
  options.timeout = absl::Milliseconds(100);
  PostgresConnection connection(url_, options);
  const auto sleep = [](pqxx::work& work) {
    work.exec("SELECT pg_sleep(60)");
    return absl::OkStatus();
  };
  // The server ends the statement.
  EXPECT_THAT(
      connection.Transact(sleep),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("statement timeout")));
  // One that does not answer, as behind a silent proxy: the socket is shut.
  EXPECT_THAT(connection.Transact([&](pqxx::work& work) {
    work.exec("SET LOCAL statement_timeout = 0");
    return sleep(work);
  }),
              StatusIs(absl::StatusCode::kUnavailable));
  // The next call has a new connection.
  EXPECT_OK(connection.Transact([](pqxx::work& work) {
    work.exec("SELECT 1");
    return absl::OkStatus();
  }));
}

TEST_F(PostgresJobStoreTest, DeposedLeaderCannotCommit) {
  PostgresLeadership first(url_, "a:1", Short());
  ASSERT_TRUE(*first.TryAcquire());
  auto old_store = Open(first.term());
  ASSERT_OK(old_store->Commit(OneJob("jobs/a", 1)));
  // Its lease ends, but its store does not know.
  PostgresLeadership second(url_, "b:2");
  Acquire(second);
  EXPECT_THAT(old_store->Commit(OneJob("jobs/b", 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another coordinator leads")));
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
  // The lease is not the session's: the next renewal finds it.
  for (int i = 0; i < 2; ++i) {
    leadership.Beat();
    EXPECT_OK(leadership.Renew());
  }
  EXPECT_TRUE(leadership.Holds());
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
