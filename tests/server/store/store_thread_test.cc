// Tests group commits, order and failures of the store's thread.
#include "server/store/store_thread.h"

#include <atomic>
#include <future>

#include "common/status_matchers.h"
#include "tests/server/store/fake_job_store.h"

namespace comera::server {
namespace {

StoreBatch OneJob(int serial) {
  StoreBatch batch;
  JobRecord record;
  record.mutable_job()->set_name("jobs/j" + std::to_string(serial));
  record.set_serial(serial);
  batch.records.push_back(record);
  return batch;
}

TEST(StoreThread, CommitsWhatWaitsInOneGroupAndInOrder) {
  FakeJobStore store;
  std::vector<int> order;
  std::promise<void> entered, release;
  {
    StoreThread thread(&store, [](const absl::Status&) { FAIL(); });
    // Holds the thread, so that the next batches gather.
    thread.Write(OneJob(1), [&](const absl::Status& status) {
      EXPECT_OK(status);
      order.push_back(1);
      entered.set_value();
      release.get_future().wait();
    });
    entered.get_future().wait();
    for (int i = 2; i <= 50; ++i) {
      thread.Write(OneJob(i), [&order, &store, i](const absl::Status& status) {
        EXPECT_OK(status);
        // Durable before it is told.
        EXPECT_EQ(store.LoadJobs()->size(), 50u);
        order.push_back(i);
      });
    }
    release.set_value();
  }
  EXPECT_EQ(store.commits(), 2);
  ASSERT_EQ(order.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[i], i + 1);
}

TEST(StoreThread, ReadSeesTheWritesBeforeIt) {
  FakeJobStore store;
  std::promise<size_t> count;
  StoreThread thread(&store, [](const absl::Status&) { FAIL(); });
  StoreBatch batch;
  batch.events.emplace_back().set_job("jobs/a");
  batch.events.back().set_sequence(1);
  thread.Write(batch, [](const absl::Status&) {});
  thread.ReadEvents("jobs/a", 0, 10, 10,
                    [&](absl::StatusOr<std::vector<v1::JobEvent>> events) {
                      count.set_value(events->size());
                    });
  EXPECT_EQ(count.get_future().get(), 1u);
}

TEST(StoreThread, AfterAFailureNothingMoreIsWritten) {
  FakeJobStore store;
  std::atomic<int> failures{0};
  std::vector<absl::Status> seen;
  std::promise<void> first;
  {
    StoreThread thread(&store, [&](const absl::Status& status) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
      ++failures;
    });
    store.FailCommits(absl::ResourceExhaustedError("disk full"));
    thread.Write(OneJob(1), [&](const absl::Status& status) {
      seen.push_back(status);
      first.set_value();
    });
    first.get_future().wait();
    // The disk has room again, but memory was ahead of it once.
    store.FailCommits(absl::OkStatus());
    thread.Write(OneJob(2),
                 [&](const absl::Status& status) { seen.push_back(status); });
  }
  EXPECT_EQ(failures, 1);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_THAT(seen[0], StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(seen[1], StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(store.LoadJobs()->size(), 0u);
}

TEST(StoreThread, AFullDiskIsNoFailureIfRoomCanBeMade) {
  FakeJobStore store;
  std::atomic<int> full{0};
  StoreThread thread(
      &store, [](const absl::Status&) { FAIL(); }, nullptr,
      [&](const absl::Status&) {
        ++full;
        store.FailCommits(absl::OkStatus());
        return true;
      });
  store.FailCommits(absl::ResourceExhaustedError("disk full"));
  std::promise<absl::Status> done;
  thread.Write(OneJob(1),
               [&](const absl::Status& status) { done.set_value(status); });
  EXPECT_OK(done.get_future().get());
  EXPECT_EQ(full, 1);
  EXPECT_EQ(store.LoadJobs()->size(), 1u);
}

TEST(StoreThread, WritesWaitForRoomInOrderWhileReadsGoOn) {
  FakeJobStore store;
  std::vector<int> order;
  std::promise<void> full, second;
  StoreThread thread(
      &store, [](const absl::Status&) { FAIL(); }, nullptr,
      [&, told = false](const absl::Status&) mutable {
        if (!told) full.set_value();
        told = true;
        return false;
      });
  store.FailCommits(absl::ResourceExhaustedError("disk full"));
  thread.Write(OneJob(1), [&](const absl::Status& status) {
    EXPECT_OK(status);
    order.push_back(1);
  });
  full.get_future().wait();
  thread.Write(OneJob(2), [&](const absl::Status& status) {
    EXPECT_OK(status);
    order.push_back(2);
    second.set_value();
  });
  // Still full.
  thread.Retry();
  std::promise<size_t> jobs;
  thread.Read(
      [&](JobStore* read) { jobs.set_value(read->LoadJobs()->size()); });
  EXPECT_EQ(jobs.get_future().get(), 0u);
  EXPECT_TRUE(order.empty());
  store.FailCommits(absl::OkStatus());
  thread.Retry();
  second.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(store.LoadJobs()->size(), 2u);
}

TEST(StoreThread, WhoeverWaitsForRoomIsToldWhenTheServerStops) {
  FakeJobStore store;
  std::promise<void> full;
  std::promise<absl::Status> first, later;
  StoreThread thread(
      &store, [](const absl::Status&) {}, nullptr,
      [&, told = false](const absl::Status&) mutable {
        if (!told) full.set_value();
        told = true;
        return false;
      });
  store.FailCommits(absl::ResourceExhaustedError("disk full"));
  thread.Write(OneJob(1),
               [&](const absl::Status& status) { first.set_value(status); });
  full.get_future().wait();
  thread.RetryOrFail();
  EXPECT_THAT(first.get_future().get(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  store.FailCommits(absl::OkStatus());
  // Memory is ahead of the disk.
  thread.Write(OneJob(2),
               [&](const absl::Status& status) { later.set_value(status); });
  EXPECT_THAT(later.get_future().get(),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace comera::server
