// Tests order, timers and ticks of the event loop.
#include "server/runtime/event_loop.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace comera::server {
namespace {

TEST(EventLoop, RunsEachThreadsClosuresInOrderOneAtATime) {
  std::vector<int> last(4, 0);
  int running = 0, total = 0;
  {
    EventLoop loop;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 1; i <= 500; ++i) {
          loop.Post([&, t, i] {
            EXPECT_EQ(++running, 1);
            EXPECT_EQ(last[t], i - 1);
            last[t] = i;
            ++total;
            --running;
          });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // The destructor runs all that is left.
  }
  EXPECT_EQ(total, 2000);
}

TEST(EventLoop, LaterClosuresRunInTheOrderInWhichTheyAreDue) {
  std::vector<int> ran;
  std::promise<void> done;
  EventLoop loop;
  // Never due: dropped, not waited for.
  loop.PostAfter(absl::Hours(1), [&] { ran.push_back(9); });
  // Posted together, so that both wait when the first is due.
  loop.Run([&] {
    loop.PostAfter(absl::Milliseconds(20), [&] {
      ran.push_back(2);
      done.set_value();
    });
    loop.PostAfter(absl::Milliseconds(10), [&] { ran.push_back(1); });
    loop.PostAfter(absl::ZeroDuration(), [&] { ran.push_back(0); });
  });
  done.get_future().wait();
  loop.Run([&] { EXPECT_EQ(ran, std::vector<int>({0, 1, 2})); });
}

TEST(EventLoop, ClosuresMayPost) {
  int depth = 0;
  std::promise<void> done;
  std::function<void()> again;
  EventLoop loop;
  again = [&] {
    if (++depth == 10) {
      done.set_value();
    } else {
      loop.Post(again);
    }
  };
  loop.Post(again);
  done.get_future().wait();
  EXPECT_EQ(depth, 10);
}

TEST(EventLoop, TimersRunByTheirTimeAndWakeTheLoop) {
  std::vector<int> order;
  std::promise<void> done;
  EventLoop loop;
  loop.PostAfter(absl::Hours(1), [&] { order.push_back(9); });
  loop.PostAfter(absl::Milliseconds(20), [&] {
    order.push_back(2);
    done.set_value();
  });
  loop.PostAfter(absl::Milliseconds(1), [&] { order.push_back(1); });
  done.get_future().wait();
  loop.Run([] {});
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(EventLoop, Ticks) {
  std::promise<void> ticked;
  int ticks = 0;
  EventLoop::Options options;
  options.tick_interval = absl::Milliseconds(1);
  options.on_tick = [&] {
    if (++ticks == 3) ticked.set_value();
  };
  EventLoop loop(options);
  ticked.get_future().wait();
}

}  // namespace
}  // namespace comera::server
