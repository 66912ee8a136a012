// Tests how a gang follows what its workers report.
#include "server/coordinator/synchronize/member_reports.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_harness.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kRunning = v1::MemberStatus::RUNNING;
constexpr auto kExited = v1::MemberStatus::EXITED;

class MemberReportsTest : public ::testing::Test {
 protected:
  MemberReportsTest() {
    parts_.AddWorker("w1");
    entry_ = &parts_.StartJob("a", "w1");
  }

  v1::SynchronizeRequest Request(
      const std::vector<v1::MemberStatus>& members) const {
    v1::SynchronizeRequest request = parts_.Report("w1");
    request.set_seen_version(parts_.workers.Find("w1")->desired_version());
    for (const v1::MemberStatus& status : members) {
      *request.add_members() = status;
    }
    return request;
  }

  void Apply(const std::vector<v1::MemberStatus>& members) {
    Operation op(parts_.now, &parts_.effects);
    parts_.members.Apply(Request(members), *parts_.workers.Find("w1"), &op);
  }

  CoordinatorParts parts_;
  JobEntry* entry_;
};

TEST_F(MemberReportsTest, TheJobRunsWhenAllMembersDo) {
  Apply({Status("jobs/a", 1, 0, kRunning), Status("jobs/a", 1, 1, kRunning)});
  EXPECT_EQ(entry_->state(), v1::RUNNING);
  EXPECT_THAT(parts_.workers.Find("w1")->occupied(), SizeIs(1));
}

TEST_F(MemberReportsTest, AMemberThatIsNotListedForLongIsLost) {
  parts_.now += absl::Seconds(9);
  Apply({});
  EXPECT_FALSE(entry_->attempt().members()[0].lost());
  parts_.now += absl::Seconds(2);
  Apply({});
  // All members were lost, so that the next attempt waits.
  EXPECT_EQ(entry_->state(), v1::QUEUED);
  EXPECT_EQ(entry_->job().incidents(0).failure_class(), v1::RANK_LOST);
}

TEST_F(MemberReportsTest, AMemberMayBeMissingWhileAnOlderAttemptLives) {
  parts_.now += absl::Seconds(11);
  Apply({Status("jobs/a", 0, 0, kRunning)});
  EXPECT_EQ(entry_->state(), v1::STARTING);
}

TEST_F(MemberReportsTest, AModelOfAnotherJobIsNoResult) {
  v1::MemberStatus result = Result("jobs/a", 1);
  result.mutable_model()->set_name("jobs/b/models/m");
  Apply({result, Status("jobs/a", 1, 1, kRunning)});
  EXPECT_FALSE(entry_->attempt().HasResult());
  EXPECT_TRUE(entry_->attempt().stopping());
}

TEST_F(MemberReportsTest, MemberZeroIsRememberedUntilItsModelHasArrived) {
  v1::MemberStatus result = Result("jobs/a", 1);
  result.mutable_model()->set_name("jobs/a/models/m");
  result.mutable_model()->add_files()->set_path("a");
  const v1::MemberStatus other = Status("jobs/a", 1, 1, kExited);
  Apply({result, other});
  v1::SynchronizeResponse response;
  parts_.members.AcknowledgeExits(Request({result, other}), &response);
  ASSERT_THAT(response.missing_models(), SizeIs(1));
  ASSERT_THAT(response.forget(), SizeIs(1));
  EXPECT_EQ(response.forget(0).rank(), 1);
}

TEST_F(MemberReportsTest, OnlyMembersWriteToTheRendezvous) {
  parts_.AddWorker("w2");
  Operation op(parts_.now, &parts_.effects);
  v1::SynchronizeRequest request = parts_.Report("w2");
  v1::RendezvousEntry* given = request.add_rendezvous();
  given->set_job("jobs/a");
  given->set_attempt(1);
  given->set_key("key");
  parts_.members.ApplyRendezvous(request, &op);
  request.set_worker("w1");
  EXPECT_THAT(op.changed_workers(), SizeIs(0));
  parts_.members.ApplyRendezvous(request, &op);
  v1::SynchronizeResponse response;
  entry_->attempt().rendezvous().AppendForeign("w2", "jobs/a", 1, 1000,
                                               response.mutable_rendezvous());
  EXPECT_THAT(response.rendezvous(), SizeIs(1));
}

TEST_F(MemberReportsTest, AGangThatLeavesTooMuchForItsMembersFails) {
  v1::SynchronizeRequest request = Request({Status("jobs/a", 1, 0, kRunning)});
  for (int i = 0; i < 300; ++i) {
    v1::RendezvousEntry* given = request.add_rendezvous();
    given->set_job("jobs/a");
    given->set_attempt(1);
    given->set_key("key-" + std::to_string(i));
    given->set_value(std::string(size_t{256} << 10, 'x'));
  }
  Operation op(parts_.now, &parts_.effects);
  parts_.members.ApplyRendezvous(request, &op);
  EXPECT_LE(entry_->attempt().rendezvous().bytes(), 1 << 20);
  ASSERT_THAT(entry_->attempt().record().failures(), SizeIs(1));
  const v1::Failure failure = entry_->attempt().record().failures(0);
  EXPECT_EQ(failure.failure_class(), v1::USER);
  EXPECT_THAT(failure.message(), HasSubstr("rendezvous folder"));
  parts_.members.Apply(request, *parts_.workers.Find("w1"), &op);
  EXPECT_TRUE(entry_->attempt().stopping());
}

TEST_F(MemberReportsTest, AGangOfManyMayLeaveTheAddressesOfAll) {
  parts_.AddWorker("w3", 512);
  JobEntry& entry = parts_.StartJob("large", "w3", 512);
  v1::SynchronizeRequest request = parts_.Report("w3");
  for (int i = 0; i < 512; ++i) {
    v1::RendezvousEntry* given = request.add_rendezvous();
    given->set_job("jobs/large");
    given->set_attempt(1);
    given->set_key("gloo-" + std::to_string(i));
    given->set_value(std::string(511 * 136, 'x'));
  }
  Operation op(parts_.now, &parts_.effects);
  parts_.members.ApplyRendezvous(request, &op);
  EXPECT_FALSE(entry.attempt().HasFailures());
}

}  // namespace
}  // namespace comera::server
