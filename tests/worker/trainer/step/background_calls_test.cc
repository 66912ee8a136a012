// Calls run on another thread, in order, until one fails.
#include "worker/trainer/step/background_calls.h"

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;

TEST(BackgroundCallsTest, RunInOrderOnAThreadOfTheirOwn) {
  std::vector<int> done;
  std::thread::id thread;
  absl::Notification may_start;
  BackgroundCalls calls;
  for (int i = 0; i < 3; ++i) {
    calls.Add([&, i] {
      may_start.WaitForNotification();
      thread = std::this_thread::get_id();
      done.push_back(i);
      return absl::OkStatus();
    });
  }
  may_start.Notify();
  ASSERT_OK(calls.Wait());
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_OK(calls.Wait()) << "nothing is left";
}

TEST(BackgroundCallsTest, AnErrorDropsTheCallsBehindIt) {
  std::vector<int> done;
  BackgroundCalls calls;
  calls.Add([] { return absl::AbortedError("first"); });
  calls.Add([&] {
    done.push_back(1);
    return absl::InternalError("second");
  });
  EXPECT_THAT(calls.Wait(), StatusIs(absl::StatusCode::kAborted, "first"));
  EXPECT_THAT(done, ElementsAre());
  calls.Add([&] {
    done.push_back(2);
    return absl::OkStatus();
  });
  EXPECT_OK(calls.Wait());
  EXPECT_THAT(done, ElementsAre(2));
}

TEST(BackgroundCallsTest, TheEndWaitsForTheCallUnderWay) {
  bool done = false;
  absl::Notification started, may_end;
  std::thread ender;
  {
    BackgroundCalls calls;
    calls.Add([&] {
      started.Notify();
      may_end.WaitForNotification();
      done = true;
      return absl::OkStatus();
    });
    started.WaitForNotification();
    ender = std::thread([&] { may_end.Notify(); });
  }
  EXPECT_TRUE(done);
  ender.join();
}

}  // namespace
}  // namespace comera::trainer
