// Tests that a host replies only when effects are durable.
#include "server/host/engine_host.h"

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/manual_clock.h"
#include "tests/server/store/fake_job_store.h"

namespace comera::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct CountEffects {
  std::vector<int> counts;
};

struct Counter {
  int count = 0;
};

// Stores each count as a document and shows it when it is durable.
class CounterHost : public EngineHost<Counter, CountEffects> {
 public:
  CounterHost(JobStore* store, Clock* clock)
      : EngineHost(clock),
        store_(std::make_unique<StoreThread>(store, [](absl::Status) {})) {}
  ~CounterHost() override { store_.reset(); }

  EventLoop& loop() override { return loop_; }
  StoreThread* store() override { return stopped ? nullptr : store_.get(); }

  absl::StatusOr<int> Count(std::function<absl::Status()> refuse = nullptr) {
    std::promise<absl::StatusOr<int>> replied;
    CommitThenReply<int>(
        [&](Counter* counter, absl::Time,
            CountEffects* effects) -> absl::StatusOr<int> {
          if (refuse != nullptr) return refuse();
          effects->counts.push_back(++counter->count);
          return counter->count;
        },
        [&](absl::StatusOr<int> value) { replied.set_value(value); });
    return replied.get_future().get();
  }

  std::vector<int> shown;
  int failed = 0;
  int operations = 0;
  bool stopped = false;

 private:
  StoreBatch ToBatch(const CountEffects& effects) const override {
    StoreBatch batch;
    for (int count : effects.counts) {
      Document document;
      document.kind = "count";
      document.name = std::to_string(count);
      document.body = "x";
      batch.documents.push_back(document);
    }
    return batch;
  }
  void OnCommitted(CountEffects effects) override {
    for (int count : effects.counts) shown.push_back(count);
  }
  void OnCommitFailed(const absl::Status&, const CountEffects&) override {
    ++failed;
  }
  void AfterOperation() override { ++operations; }

  EventLoop loop_;
  std::unique_ptr<StoreThread> store_;
};

class EngineHostTest : public testing::Test {
 protected:
  FakeJobStore store_;
  ManualClock clock_;
  CounterHost host_{&store_, &clock_};
};

TEST_F(EngineHostTest, RepliesOnceTheEffectsAreDurableAndShown) {
  ASSERT_OK_AND_ASSIGN(const int count, host_.Count());
  EXPECT_EQ(count, 1);
  EXPECT_THAT(host_.shown, ElementsAre(1));
  EXPECT_EQ(host_.operations, 1);
  ASSERT_OK_AND_ASSIGN(const auto documents, store_.LoadDocuments("count"));
  ASSERT_EQ(documents.size(), 1u);
  EXPECT_EQ(documents[0].name, "1");
}

TEST_F(EngineHostTest, RepliesWithTheErrorOfTheOperation) {
  EXPECT_THAT(host_.Count([] { return absl::NotFoundError("no count"); }),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(host_.shown, IsEmpty());
}

TEST_F(EngineHostTest, AnOperationWithoutAValueRepliesWithItsStatus) {
  std::promise<absl::Status> replied;
  host_.CommitThenReply(
      [](Counter* counter, absl::Time, CountEffects*) {
        return counter->count == 0
                   ? absl::FailedPreconditionError("nothing counted")
                   : absl::OkStatus();
      },
      [&](const absl::Status& status) { replied.set_value(status); });
  EXPECT_THAT(replied.get_future().get(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(EngineHostTest, ShowsNothingThatCouldNotBeStored) {
  store_.FailCommits(absl::InternalError("the disk is full"));
  EXPECT_THAT(host_.Count(), StatusIs(absl::StatusCode::kUnavailable,
                                      HasSubstr("the disk is full")));
  EXPECT_THAT(host_.shown, IsEmpty());
  EXPECT_EQ(host_.failed, 1);
}

TEST_F(EngineHostTest, RunsNothingOnceItStops) {
  host_.loop().Run([&] { host_.stopped = true; });
  EXPECT_THAT(host_.Count(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(host_.operations, 0);
}

}  // namespace
}  // namespace comera::server
