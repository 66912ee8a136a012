// Tests retry budgets, waits, and the list of checkpoints.
#include "server/coordinator/job/retry_policy.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

JobRecord Record(v1::FailureClass failure_class, int retries) {
  JobRecord record;
  v1::ClassBudget& budget =
      *record.mutable_job()->mutable_spec()->mutable_retries()->add_classes();
  budget.set_failure_class(failure_class);
  budget.set_retries(retries);
  return record;
}

TEST(RetryPolicyTest, AClassOfItsOwnGoesBeforeItsGroup) {
  JobRecord record = Record(v1::OUT_OF_MEMORY, 2);
  EXPECT_TRUE(ChargeRetry(v1::OUT_OF_MEMORY, &record));
  EXPECT_TRUE(ChargeRetry(v1::OUT_OF_MEMORY, &record));
  EXPECT_FALSE(ChargeRetry(v1::OUT_OF_MEMORY, &record));
  // The other classes of the group keep their budget of none.
  EXPECT_FALSE(ChargeRetry(v1::NAN_LOSS, &record));
  JobRecord none = Record(v1::NODE_LOST, 0);
  EXPECT_FALSE(ChargeRetry(v1::NODE_LOST, &none));
  EXPECT_TRUE(ChargeRetry(v1::RANK_LOST, &none));
}

TEST(RetryPolicyTest, Complaint14_UserErrorsAreNotRetriedWhateverIsAsked) {
  for (v1::FailureClass failure_class : {v1::USER, v1::DATA}) {
    JobRecord record = Record(failure_class, 100);
    EXPECT_FALSE(ChargeRetry(failure_class, &record));
  }
}

TEST(RetryPolicyTest, Complaint14_OutOfMemoryDoesNotRestartForEver) {
  JobRecord record;
  EXPECT_FALSE(ChargeRetry(v1::OUT_OF_MEMORY, &record));
}

TEST(RetryPolicyTest, PreemptionIsChargedToNothing) {
  JobRecord record;
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(ChargeRetry(v1::PREEMPTED, &record));
  EXPECT_EQ(record.infrastructure_losses() + record.training_losses(), 0);
}

TEST(RetryPolicyTest, DelaysDoubleUpToABound) {
  const RetryBackoff backoff;
  EXPECT_EQ(RetryDelay(backoff, 1, 1), absl::ZeroDuration());
  EXPECT_EQ(RetryDelay(backoff, 2, 1), absl::Seconds(1));
  EXPECT_EQ(RetryDelay(backoff, 3, 1), absl::Seconds(2));
  EXPECT_EQ(RetryDelay(backoff, 5, 1), absl::Seconds(8));
  EXPECT_EQ(RetryDelay(backoff, 5, 0), absl::Seconds(4));
  EXPECT_EQ(RetryDelay(backoff, 1000000, 1), absl::Minutes(1));
}

TEST(RetryPolicyTest, Complaint15_TheFirstFailureByTimeIsTheCause) {
  AttemptRecord attempt;
  const auto add = [&](v1::FailureClass failure_class, int64_t seconds) {
    v1::Failure& failure = *attempt.add_failures();
    failure.set_failure_class(failure_class);
    failure.mutable_time()->set_seconds(seconds);
  };
  add(v1::COLLECTIVE_HANG, 1);  // It is what a member sees of another's end.
  add(v1::RANK_LOST, 9);
  add(v1::NAN_LOSS, 5);
  const auto ordered = FailuresCauseFirst(attempt);
  ASSERT_EQ(ordered.size(), 3u);
  EXPECT_EQ(ordered[0].failure_class(), v1::NAN_LOSS);
  EXPECT_EQ(ordered[1].failure_class(), v1::RANK_LOST);
  EXPECT_EQ(ordered[2].failure_class(), v1::COLLECTIVE_HANG);
}

TEST(RetryPolicyTest, WhatEndsAnAttemptByItsModelIsTheCause) {
  AttemptRecord attempt;
  const auto add = [&](v1::FailureClass failure_class, int32_t rank,
                       int64_t seconds) {
    v1::Failure& failure = *attempt.add_failures();
    failure.set_failure_class(failure_class);
    failure.set_rank(rank);
    failure.mutable_time()->set_seconds(seconds);
  };
  add(v1::USER, -1, 9);
  add(v1::PREEMPTED, 1, 5);
  EXPECT_EQ(FailuresCauseFirst(attempt)[0].failure_class(), v1::PREEMPTED);
  attempt.mutable_finish_time()->set_seconds(9);
  EXPECT_EQ(FailuresCauseFirst(attempt)[0].failure_class(), v1::USER);
}

}  // namespace
}  // namespace comera::server
