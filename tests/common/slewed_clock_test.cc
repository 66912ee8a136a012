// Moves the wall and monotonic clocks apart and checks how the slewed clock
// follows.

#include "common/slewed_clock.h"

#include "gtest/gtest.h"

namespace comera {
namespace {

class WallClock : public Clock {
 public:
  absl::Time Now() override { return now; }
  absl::Time now = absl::FromUnixSeconds(1000000);
};

class SlewedClockTest : public ::testing::Test {
 protected:
  // Advances both clocks; returns how far the slewed one advanced.
  absl::Duration Run(absl::Duration duration, absl::Duration step) {
    const absl::Time before = clock_.Now();
    for (absl::Duration done; done < duration; done += step) {
      elapsed_ += step;
      wall_.now += step;
      const absl::Time last = clock_.Now();
      EXPECT_LE(last, clock_.Now());
    }
    return clock_.Now() - before;
  }

  WallClock wall_;
  absl::Duration elapsed_ = absl::Seconds(77);
  SlewedClock clock_{{}, &wall_, [this] { return elapsed_; }};
};

TEST_F(SlewedClockTest, RunsWithTheWallClock) {
  EXPECT_EQ(Run(absl::Minutes(10), absl::Seconds(1)), absl::Minutes(10));
  EXPECT_EQ(clock_.Now(), wall_.now);
}

TEST_F(SlewedClockTest, AJumpOfAnHourChangesNoDurationByMoreThanATenth) {
  for (const absl::Duration jump : {absl::Hours(1), -absl::Hours(2)}) {
    wall_.now += jump;
    const absl::Duration ran = Run(absl::Minutes(1), absl::Seconds(1));
    EXPECT_GE(ran, absl::Seconds(53));
    EXPECT_LE(ran, absl::Seconds(67));
  }
}

TEST_F(SlewedClockTest, AgreesAgainInTheEnd) {
  wall_.now += absl::Minutes(1);
  Run(absl::Minutes(11), absl::Seconds(1));
  EXPECT_EQ(clock_.Now(), wall_.now);
  wall_.now -= absl::Minutes(1);
  Run(absl::Minutes(11), absl::Seconds(1));
  EXPECT_EQ(clock_.Now(), wall_.now);
}

TEST_F(SlewedClockTest, TimeInWhichNobodyLookedHardlyCounts) {
  EXPECT_LE(Run(absl::Minutes(5), absl::Minutes(5)), absl::Seconds(6));
}

}  // namespace
}  // namespace comera
