// Runs calls on threads, more than there are.

#include "worker/predict/call_threads.h"

#include <atomic>
#include <memory>
#include <vector>

#include "common/event.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

TEST(CallThreadsTest, SoManyRunAndSoManyWait) {
  std::atomic<int> starting{2}, waiting{3};
  Event running, waited, end;
  CallThreads threads(2, 3);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(threads.Run([&] {
      if (--starting == 0) running.Notify();
      end.Wait();
    }));
  }
  running.Wait();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(threads.Run([&] {
      if (--waiting == 0) waited.Notify();
    }));
  }
  EXPECT_FALSE(threads.Run([] { FAIL(); }));
  end.Notify();
  waited.Wait();
}

TEST(CallThreadsTest, CallsComeInTheirOrder) {
  std::vector<int> order;
  Event begin, end;
  CallThreads threads(1, 3);
  ASSERT_TRUE(threads.Run([&] { begin.Wait(); }));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(threads.Run([&order, i] { order.push_back(i); }));
  }
  ASSERT_TRUE(threads.Run([&] { end.Notify(); }));
  begin.Notify();
  end.Wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

// What a call holds goes with it, so that callers are told.
TEST(CallThreadsTest, TheEndDropsWhatWaits) {
  Event running, end;
  const auto held = std::make_shared<int>(0);
  {
    CallThreads threads(1, 1);
    ASSERT_TRUE(threads.Run([&] {
      running.Notify();
      end.Wait();
    }));
    running.Wait();
    ASSERT_TRUE(threads.Run([held] {}));
    EXPECT_EQ(held.use_count(), 2);
    end.Notify();
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace comera::worker
