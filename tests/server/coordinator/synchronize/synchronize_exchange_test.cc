// Tests who may synchronise, and whether the answer comes now or later.
#include "server/coordinator/synchronize/synchronize_exchange.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/proto_time.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

class SynchronizeExchangeTest : public ::testing::Test {
 protected:
  // The replies to this call and to those that it ended.
  std::vector<SynchronizeReply> Run(const v1::SynchronizeRequest& request,
                                    int64_t call) {
    parts_.effects = Effects();
    Operation op(parts_.now, &parts_.effects);
    exchange_.Run(request, log_acks_, call, &op);
    return parts_.effects.replies;
  }
  // A request that waits for news after the newest answer.
  v1::SynchronizeRequest Waiting() {
    v1::SynchronizeRequest request = parts_.Report("w1");
    request.set_seen_version(parts_.workers.Find("w1")->desired_version());
    *request.mutable_hold() = ToProtoDuration(absl::Seconds(10));
    return request;
  }

  CoordinatorParts parts_;
  std::vector<v1::LogAck> log_acks_;
  SynchronizeExchange exchange_{{&parts_.options, &parts_.jobs, &parts_.workers,
                                 &parts_.lifecycle, &parts_.members,
                                 &parts_.peers, &parts_.assignments,
                                 &parts_.held_calls}};
};

TEST_F(SynchronizeExchangeTest, ANewWorkerIsAnsweredAtOnceThenHeld) {
  ASSERT_THAT(Run(parts_.Report("w1"), 1), SizeIs(1));
  EXPECT_THAT(Run(Waiting(), 2), SizeIs(0));
  // The next call replaces the one that waits.
  const auto replies = Run(Waiting(), 3);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].call, 2);
}

TEST_F(SynchronizeExchangeTest, ALaterDaemonKeepsTheMembersOfItsIncarnation) {
  v1::SynchronizeRequest request = parts_.Report("w1");
  request.set_daemon("d1");
  Run(request, 1);
  const JobEntry& entry = parts_.StartJob("a", "w1");
  v1::SynchronizeRequest waiting = Waiting();
  waiting.set_daemon("d1");
  Run(waiting, 2);
  request.set_daemon("d2");
  const auto replies = Run(request, 3);
  ASSERT_THAT(replies, SizeIs(2));
  EXPECT_TRUE(absl::IsAborted(replies[0].response.status()));
  EXPECT_TRUE(replies[1].response.ok());
  EXPECT_EQ(entry.state(), v1::STARTING);
  // A call of the first daemon that was under way for long.
  EXPECT_TRUE(absl::IsAborted(Run(waiting, 4)[0].response.status()));
}

// A worker's first daemon may have called its incarnation by its own name.
TEST_F(SynchronizeExchangeTest, ADaemonsIncarnationOutlivesIt) {
  v1::SynchronizeRequest first = parts_.Report("w1");
  first.set_incarnation("x");
  first.set_daemon("x");
  ASSERT_TRUE(Run(first, 1)[0].response.ok());
  v1::SynchronizeRequest next = first;
  next.set_daemon("y");
  for (int64_t call = 2; call <= 4; ++call) {
    EXPECT_OK(Run(next, call)[0].response);
  }
  // A late call of the first one takes nothing back.
  EXPECT_TRUE(absl::IsAborted(Run(first, 5)[0].response.status()));
  EXPECT_OK(Run(next, 6)[0].response);
}

TEST_F(SynchronizeExchangeTest, AcknowledgementsAreNotHeldBack) {
  Run(parts_.Report("w1"), 1);
  log_acks_.emplace_back();
  const auto replies = Run(Waiting(), 2);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_THAT(replies[0].response->log_acks(), SizeIs(1));
}

TEST_F(SynchronizeExchangeTest, ANewIncarnationTakesOver) {
  Run(parts_.Report("w1"), 1);
  const JobEntry& entry = parts_.StartJob("a", "w1");
  Run(Waiting(), 2);
  v1::SynchronizeRequest request = parts_.Report("w1");
  request.set_incarnation("i2");
  const auto replies = Run(request, 3);
  ASSERT_THAT(replies, SizeIs(2));
  EXPECT_TRUE(absl::IsAborted(replies[0].response.status()));
  EXPECT_TRUE(replies[1].response.ok());
  EXPECT_EQ(entry.state(), v1::QUEUED);
  EXPECT_TRUE(
      absl::IsAborted(Run(parts_.Report("w1"), 4)[0].response.status()));
}

TEST_F(SynchronizeExchangeTest, AMalformedRequestIsRefused) {
  v1::SynchronizeRequest request = parts_.Report("w1");
  request.set_worker("../w1");
  const auto replies = Run(request, 1);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_TRUE(absl::IsInvalidArgument(replies[0].response.status()));
  EXPECT_EQ(parts_.workers.Find("../w1"), nullptr);
}

}  // namespace
}  // namespace comera::server
