// Tests when waiting Synchronize calls are answered.
#include "server/coordinator/synchronize/held_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

class HeldCallsTest : public ::testing::Test {
 protected:
  HeldCallsTest() {
    parts_.held_calls.Hold(parts_.AddWorker("w1"), 1,
                           parts_.now + absl::Seconds(30));
    parts_.held_calls.Hold(parts_.AddWorker("w2"), 2,
                           parts_.now + absl::Seconds(60));
  }

  CoordinatorParts parts_;
};

TEST_F(HeldCallsTest, AChangedWorkerIsAnswered) {
  Operation op(parts_.now, &parts_.effects);
  parts_.workers.MarkChanged("w2", &op);
  parts_.held_calls.AnswerChanged(&op);
  ASSERT_THAT(parts_.effects.replies, SizeIs(1));
  EXPECT_EQ(parts_.effects.replies[0].call, 2);
  EXPECT_EQ(parts_.effects.replies[0].response->desired_version(),
            parts_.workers.Find("w2")->desired_version());
  EXPECT_FALSE(parts_.workers.Find("w2")->held().has_value());
}

TEST_F(HeldCallsTest, ACallIsAnsweredWhenItsTimeIsUp) {
  Operation op(parts_.now + absl::Seconds(30), &parts_.effects);
  for (auto& [id, worker] : parts_.workers.workers()) {
    parts_.held_calls.AnswerIfExpired(worker, &op);
  }
  ASSERT_THAT(parts_.effects.replies, SizeIs(1));
  EXPECT_EQ(parts_.effects.replies[0].call, 1);
  // Nobody hung up until now.
  EXPECT_EQ(parts_.workers.Find("w1")->last_seen(), op.now());
}

TEST_F(HeldCallsTest, AnAbandonedCallIsNeverAnswered) {
  Operation op(parts_.now, &parts_.effects);
  parts_.held_calls.Abandon(1);
  parts_.held_calls.AnswerAll(&op);
  ASSERT_THAT(parts_.effects.replies, SizeIs(1));
  EXPECT_EQ(parts_.effects.replies[0].call, 2);
}

TEST_F(HeldCallsTest, ARefusedCallGetsTheError) {
  Operation op(parts_.now, &parts_.effects);
  WorkerState& worker = *parts_.workers.Find("w1");
  parts_.held_calls.Refuse(worker, absl::AbortedError("replaced"), &op);
  parts_.held_calls.Refuse(worker, absl::AbortedError("replaced"), &op);
  ASSERT_THAT(parts_.effects.replies, SizeIs(1));
  EXPECT_TRUE(absl::IsAborted(parts_.effects.replies[0].response.status()));
}

}  // namespace
}  // namespace comera::server
