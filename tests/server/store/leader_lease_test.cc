// When a coordinator leads and when it stops, with clocks and a lease row of
// the test's own.
#include "server/store/leader_lease.h"

#include <functional>
#include <memory>
#include <string>

#include "common/status_matchers.h"
#include "server/store/lease_store.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLength = absl::Seconds(5);
constexpr absl::Duration kTick = absl::Milliseconds(500);

// What all coordinators share.
struct FakeDatabase {
  absl::Time clock = absl::FromUnixSeconds(1000000);
  LeaseRow row;
  absl::Time expires = absl::InfinitePast();
};

// One coordinator's way to the database.
class FakeLeaseStore : public LeaseStore {
 public:
  FakeLeaseStore(FakeDatabase* database, bool* reachable,
                 std::function<void()>* on_renew)
      : database_(*database), reachable_(*reachable), on_renew_(*on_renew) {}

  absl::StatusOr<LeaseRow> Read() override {
    if (!reachable_) return Silent();
    LeaseRow row = database_.row;
    row.expired = database_.expires <= database_.clock;
    return row;
  }
  absl::StatusOr<int64_t> Take(const LeaseRow& row, const std::string& address,
                               const std::string& secret, absl::Duration length,
                               bool although_unexpired) override {
    if (!reachable_) return Silent();
    if (row.renewals != database_.row.renewals) return 0;
    if (database_.expires > database_.clock && !although_unexpired) return 0;
    ++database_.row.term;
    database_.row.address = address;
    database_.row.secret = secret;
    Extend(length);
    return database_.row.term;
  }
  absl::StatusOr<bool> Renew(int64_t term, absl::Duration length) override {
    if (on_renew_) on_renew_();
    if (!reachable_) return Silent();
    if (term != database_.row.term) return false;
    Extend(length);
    return true;
  }
  absl::Status GiveBack(int64_t term) override {
    if (!reachable_) return Silent();
    if (term == database_.row.term) database_.expires = absl::InfinitePast();
    return absl::OkStatus();
  }

 private:
  static absl::Status Silent() { return absl::UnavailableError("silent"); }
  void Extend(absl::Duration length) {
    ++database_.row.renewals;
    database_.row.length = length;
    database_.expires = database_.clock + length;
  }

  FakeDatabase& database_;
  bool& reachable_;
  std::function<void()>& on_renew_;
};

// A coordinator: its clock, and what happens to it.
struct Node {
  Node(FakeDatabase* database, const std::string& address) {
    LeaderLease::Options options;
    options.length = kLength;
    options.now = [this] { return now; };
    lease = std::make_unique<LeaderLease>(
        std::make_unique<FakeLeaseStore>(database, &reachable, &on_renew),
        address, options);
  }

  bool Leads() {
    const absl::StatusOr<bool> leads = lease->TryAcquire();
    EXPECT_OK(leads);
    return leads.value_or(false);
  }
  absl::Status BeatAndRenew() {
    lease->Beat();
    return lease->Renew();
  }

  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  bool reachable = true;
  std::function<void()> on_renew;
  std::unique_ptr<LeaderLease> lease;
};

class LeaderLeaseTest : public ::testing::Test {
 protected:
  void Pass(absl::Duration time) {
    database_.clock += time;
    a_.now += time;
    b_.now += time;
  }

  FakeDatabase database_;
  Node a_{&database_, "a:1"};
  Node b_{&database_, "b:2"};
};

TEST_F(LeaderLeaseTest, ARenewedLeaseLasts) {
  EXPECT_FALSE(a_.lease->Holds());
  ASSERT_TRUE(a_.Leads());
  EXPECT_EQ(a_.lease->term(), 1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(a_.lease->Holds());
    EXPECT_FALSE(b_.Leads());
    EXPECT_OK(a_.BeatAndRenew());
    Pass(kTick);
  }
  EXPECT_EQ(b_.lease->last_row().address, "a:1");
  EXPECT_EQ(b_.lease->last_row().secret, a_.lease->secret());
}

TEST_F(LeaderLeaseTest, GivenUpItIsFreeAtOnce) {
  ASSERT_TRUE(a_.Leads());
  a_.lease->GiveUp();
  EXPECT_FALSE(a_.lease->Holds());
  EXPECT_EQ(a_.lease->term(), 0);
  EXPECT_TRUE(b_.Leads());
  EXPECT_NE(b_.lease->secret(), a_.lease->secret());
}

// Also that of a process that was stopped: its clock goes on.
TEST_F(LeaderLeaseTest, ALoopThatStandsStillLosesTheLease) {
  ASSERT_TRUE(a_.Leads());
  bool b_leads = false;
  int overlaps = 0;
  for (int i = 0; i < 20 && !b_leads; ++i) {
    Pass(kTick);
    // The thread that renews runs, the loop does not.
    if (a_.lease->Holds()) {
      EXPECT_OK(a_.lease->Renew());
    }
    b_leads = b_.Leads();
    if (b_leads && a_.lease->Holds()) ++overlaps;
  }
  EXPECT_TRUE(b_leads);
  EXPECT_EQ(overlaps, 0);
  EXPECT_THAT(a_.lease->Renew(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(LeaderLeaseTest, WithoutTheDatabaseItStopsBeforeTheLeaseEnds) {
  ASSERT_TRUE(a_.Leads());
  a_.reachable = false;
  const absl::Time begin = a_.now;
  while (a_.lease->Holds()) {
    // Nobody else may lead while it may answer.
    EXPECT_FALSE(b_.Leads());
    EXPECT_OK(a_.BeatAndRenew());
    Pass(absl::Milliseconds(10));
  }
  EXPECT_LT(a_.now - begin, kLength * 0.9);
  EXPECT_GT(a_.now - begin, kLength * 0.5);
  EXPECT_FALSE(b_.Leads());
  Pass(kLength);
  EXPECT_TRUE(b_.Leads());
  a_.reachable = true;
  EXPECT_THAT(a_.BeatAndRenew(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(LeaderLeaseTest, AFailedRenewalIsTriedAgain) {
  ASSERT_TRUE(a_.Leads());
  Pass(kTick * 4);
  a_.reachable = false;
  EXPECT_OK(a_.BeatAndRenew());
  a_.reachable = true;
  EXPECT_OK(a_.lease->Renew());
  Pass(kTick * 7);
  EXPECT_TRUE(a_.lease->Holds());
}

// An answer that comes late must not count from its arrival.
TEST_F(LeaderLeaseTest, TimeCountsFromBeforeTheRenewalWasSent) {
  ASSERT_TRUE(a_.Leads());
  const absl::Time sent = a_.now;
  a_.on_renew = [this] { Pass(kLength * 0.7); };
  ASSERT_OK(a_.BeatAndRenew());
  EXPECT_TRUE(a_.lease->Holds());
  Pass(kLength * 0.15);
  EXPECT_LT(a_.now, sent + kLength);
  EXPECT_FALSE(a_.lease->Holds());
}

TEST_F(LeaderLeaseTest, ADeposedLeaderLearnsItWhenItRenews) {
  ASSERT_TRUE(a_.Leads());
  // The database's clock jumps ahead.
  database_.clock += absl::Hours(1);
  ASSERT_TRUE(b_.Leads());
  EXPECT_THAT(a_.BeatAndRenew(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("another")));
  EXPECT_FALSE(a_.lease->Holds());
  // What it gives back is no longer its own.
  a_.lease->GiveUp();
  EXPECT_FALSE(a_.Leads());
}

TEST_F(LeaderLeaseTest, ADatabaseClockThatIsSetBackKeepsNobodyOut) {
  ASSERT_TRUE(a_.Leads());
  database_.clock -= absl::Hours(1);
  a_.reachable = false;
  EXPECT_FALSE(b_.Leads());
  Pass(kLength * 0.9);
  EXPECT_FALSE(b_.Leads());
  Pass(kLength * 0.2);
  EXPECT_FALSE(a_.lease->Holds());
  EXPECT_TRUE(b_.Leads());
}

}  // namespace
}  // namespace comera::server
