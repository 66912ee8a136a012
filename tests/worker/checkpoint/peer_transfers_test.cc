// Tests the bounds of transfers between workers with a clock set by hand.
#include "worker/checkpoint/peer_transfers.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using Code = absl::StatusCode;

class PeerTransfersTest : public ::testing::Test {
 protected:
  PeerTransfers::Options Options() {
    PeerTransfers::Options options;
    options.max_bytes = 100;
    options.max_reads = 2;
    options.interval = absl::InfiniteDuration();
    options.now = [this] { return now_; };
    return options;
  }

  // Notes the transfer's name when it is cancelled.
  std::function<void()> Note(const std::string& name) {
    return [this, name] { cancelled_.push_back(name); };
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  std::vector<std::string> cancelled_;
  PeerTransfers transfers_{Options()};
};

TEST_F(PeerTransfersTest, AllBodiesHaveOneBudget) {
  auto first = transfers_.BeginReceive("jobs/a", Note("a"));
  const auto second = transfers_.BeginReceive("jobs/b", Note("b"));
  EXPECT_OK(first->Move(60));
  EXPECT_OK(second->Move(40));
  EXPECT_THAT(second->Move(1), StatusIs(Code::kResourceExhausted));
  EXPECT_THAT(second->Move(SIZE_MAX), StatusIs(Code::kResourceExhausted));
  EXPECT_OK(second->Move());
  first.reset();
  EXPECT_OK(second->Move(60));
  EXPECT_THAT(second->Move(1), StatusIs(Code::kResourceExhausted));
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(PeerTransfersTest, AJobSendsOneStateAtATime) {
  const auto other = transfers_.BeginReceive("jobs/b", Note("b"));
  ASSERT_OK_AND_ASSIGN(const auto read,
                       transfers_.BeginRead("jobs/a", Note("read")));
  auto first = transfers_.BeginReceive("jobs/a", Note("first"));
  EXPECT_OK(first->Move(60));
  const auto second = transfers_.BeginReceive("jobs/a", Note("second"));
  EXPECT_EQ(cancelled_, std::vector<std::string>{"first"});
  EXPECT_THAT(first->Move(1), StatusIs(Code::kAborted));
  // Its bytes count until it has gone.
  EXPECT_THAT(second->Move(60), StatusIs(Code::kResourceExhausted));
  first.reset();
  EXPECT_OK(second->Move(60));
  EXPECT_OK(other->Move(1));
  EXPECT_OK(read->Move());
}

TEST_F(PeerTransfersTest, AJobsStatesAreReadAFewTimesAtOnce) {
  ASSERT_OK_AND_ASSIGN(auto first, transfers_.BeginRead("jobs/a", Note("1")));
  ASSERT_OK_AND_ASSIGN(const auto second,
                       transfers_.BeginRead("jobs/a", Note("2")));
  EXPECT_THAT(transfers_.BeginRead("jobs/a", Note("3")).status(),
              StatusIs(Code::kResourceExhausted));
  EXPECT_OK(transfers_.BeginRead("jobs/b", Note("4")).status());
  first.reset();
  EXPECT_OK(transfers_.BeginRead("jobs/a", Note("5")).status());
}

TEST_F(PeerTransfersTest, WhatStandsStillIsCancelledOnce) {
  const auto silent = transfers_.BeginReceive("jobs/a", Note("silent"));
  const auto busy = transfers_.BeginReceive("jobs/b", Note("busy"));
  ASSERT_OK_AND_ASSIGN(const auto read,
                       transfers_.BeginRead("jobs/a", Note("read")));
  now_ += absl::Seconds(59);
  transfers_.CancelIdle();
  EXPECT_TRUE(cancelled_.empty());
  EXPECT_OK(busy->Move(1));
  EXPECT_OK(read->Move());
  now_ += absl::Seconds(1);
  transfers_.CancelIdle();
  transfers_.CancelIdle();
  EXPECT_EQ(cancelled_, std::vector<std::string>{"silent"});
  EXPECT_THAT(silent->Move(1), StatusIs(Code::kDeadlineExceeded));
  EXPECT_OK(busy->Move(1));
}

}  // namespace
}  // namespace comera::worker
