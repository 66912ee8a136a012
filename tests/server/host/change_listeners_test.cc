// Tests that listeners are called by name until they are removed.
#include "server/host/change_listeners.h"

#include "gtest/gtest.h"

namespace comera::server {
namespace {

TEST(ChangeListeners, CallsThoseOfTheNameUntilTheyAreRemoved) {
  ChangeListeners listeners;
  int a = 0, b = 0;
  const int64_t first = listeners.Add("jobs/a", [&] { ++a; });
  listeners.Add("jobs/b", [&] { ++b; });
  listeners.Notify("jobs/a");
  listeners.Notify("jobs/c");
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 0);
  listeners.NotifyAll();
  EXPECT_EQ(a, 2);
  EXPECT_EQ(b, 1);
  listeners.Remove("jobs/a", first);
  listeners.Remove("jobs/a", first);
  listeners.NotifyAll();
  EXPECT_EQ(a, 2);
  EXPECT_EQ(b, 2);
}

TEST(ChangeListeners, AListenerMayRemoveItself) {
  ChangeListeners listeners;
  int calls = 0;
  int64_t id = 0;
  id = listeners.Add("jobs/a", [&] {
    ++calls;
    listeners.Remove("jobs/a", id);
  });
  listeners.Notify("jobs/a");
  listeners.NotifyAll();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace comera::server
