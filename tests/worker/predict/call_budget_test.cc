// Takes shares of a budget and gives them back.

#include "worker/predict/call_budget.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;

TEST(CallBudgetTest, CallsAreCounted) {
  CallBudget budget(2, 100);
  auto first = budget.Take(0);
  ASSERT_OK(first);
  {
    const auto second = budget.Take(0);
    ASSERT_OK(second);
    EXPECT_THAT(budget.Take(0), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("2 calls")));
  }
  EXPECT_OK(budget.Take(0));
}

TEST(CallBudgetTest, BytesAreCounted) {
  CallBudget budget(10, 100);
  std::optional<CallBudget::Share> most;
  {
    auto share = budget.Take(60);
    ASSERT_OK(share);
    // A share that has moved is given back once.
    most.emplace(*std::move(share));
  }
  EXPECT_THAT(budget.Take(41), StatusIs(absl::StatusCode::kResourceExhausted,
                                        HasSubstr("60 bytes")));
  EXPECT_OK(budget.Take(40));
  most.reset();
  EXPECT_OK(budget.Take(100));
  EXPECT_OK(budget.Take(100));
}

TEST(CallBudgetTest, WhatNeverFitsIsNotToBeTriedAgain) {
  CallBudget budget(10, 100);
  for (const int64_t bytes :
       {int64_t{101}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(budget.Take(bytes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("100")));
  }
}

}  // namespace
}  // namespace comera::worker
