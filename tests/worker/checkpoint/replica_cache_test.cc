// Checks which copies of training states stay in memory.
#include "worker/checkpoint/replica_cache.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kJob[] = "jobs/a";

TEST(ReplicaCacheTest, KeepsTheNewestTwoOfAJob) {
  ReplicaCache cache(1000);
  for (int64_t step : {10, 20, 30}) {
    ASSERT_OK(cache.Put(kJob, {step, false, 1}, "state"));
  }
  EXPECT_THAT(cache.List(kJob), SizeIs(2));
  EXPECT_EQ(cache.Get(kJob, {1, 10}), nullptr);
  EXPECT_EQ(*cache.Get(kJob, {1, 30}), "state");
  EXPECT_EQ(cache.Get(kJob, {2, 30}), nullptr);
  EXPECT_EQ(cache.bytes(), 10u);
  cache.Drop(kJob);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_THAT(cache.Jobs(), IsEmpty());
}

TEST(ReplicaCacheTest, AfterStartingOverLowStepsStay) {
  ReplicaCache cache(1000);
  ASSERT_OK(cache.Put(kJob, {500, false, 1}, "old"));
  ASSERT_OK(cache.Put(kJob, {600, false, 1}, "old"));
  ASSERT_OK(cache.Put(kJob, {10, false, 2}, "new"));
  EXPECT_EQ(cache.Get(kJob, {1, 500}), nullptr);
  EXPECT_NE(cache.Get(kJob, {1, 600}), nullptr);
  ASSERT_OK(cache.Put(kJob, {20, false, 2}, "new"));
  const auto entries = cache.List(kJob);
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].name.step, 10);
  EXPECT_EQ(entries[1].name.step, 20);
  // What the first attempt saved late comes too late.
  EXPECT_THAT(cache.Put(kJob, {700, false, 1}, "late"),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(cache.List(kJob), SizeIs(2));
}

TEST(ReplicaCacheTest, ACopyThatDoesNotFitDisplacesNothing) {
  ReplicaCache cache(100);
  ASSERT_OK(cache.Put(kJob, {10, false, 1}, std::string(60, 'a')));
  EXPECT_THAT(cache.Put(kJob, {10, false, 1}, std::string(101, 'a')),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("101 bytes needed, 100 bytes there")));
  EXPECT_NE(cache.Get(kJob, {1, 10}), nullptr);
  // Without room for two, the newer one stays.
  ASSERT_OK(cache.Put(kJob, {20, false, 1}, std::string(60, 'a')));
  EXPECT_EQ(cache.Get(kJob, {1, 10}), nullptr);
  EXPECT_NE(cache.Get(kJob, {1, 20}), nullptr);
}

TEST(ReplicaCacheTest, OlderCopiesGiveWayNewestOnesDoNot) {
  ReplicaCache cache(100);
  ASSERT_OK(cache.Put("jobs/a", {1, false}, std::string(40, 'a')));
  ASSERT_OK(cache.Put("jobs/a", {2, false}, std::string(40, 'a')));
  ASSERT_OK(cache.Put("jobs/b", {1, false}, std::string(40, 'b')));
  EXPECT_EQ(cache.Get("jobs/a", {0, 1}), nullptr);
  EXPECT_NE(cache.Get("jobs/a", {0, 2}), nullptr);
  EXPECT_THAT(cache.Put("jobs/c", {1, false}, std::string(40, 'c')),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("taken by the newest copies")));
  EXPECT_NE(cache.Get("jobs/b", {0, 1}), nullptr);
  EXPECT_LE(cache.bytes(), 100u);
}

}  // namespace
}  // namespace comera::worker
