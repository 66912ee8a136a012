#ifndef COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_FIXTURE_H_
#define COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_FIXTURE_H_

#include <string>

#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace comera::server {

constexpr auto kStarting = v1::MemberStatus::STARTING;
constexpr auto kRunning = v1::MemberStatus::RUNNING;
constexpr auto kExited = v1::MemberStatus::EXITED;

// A coordinator and two workers.
class CoordinatorTest : public ::testing::Test {
 protected:
  using Worker = CoordinatorHarness::Worker;

  // A job with two members that run on w1.
  std::string RunningJob() {
    const std::string name = h_.Submit(2);
    h_.Follow(w1_, kRunning);
    EXPECT_EQ(h_.job(name).state(), v1::RUNNING);
    return name;
  }

  CoordinatorHarness h_;
  Worker w1_{"w1"};
  Worker w2_{"w2"};
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_FIXTURE_H_
