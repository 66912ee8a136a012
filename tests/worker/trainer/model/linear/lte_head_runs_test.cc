// Tests how the tokens of a batch are shared out among LTE's heads.
#include "worker/trainer/model/linear/lte_head_runs.h"

#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Samples of these lengths, at most 3.
Batch WithLengths(const std::vector<int64_t>& lengths) {
  Batch batch;
  batch.size = static_cast<int64_t>(lengths.size());
  batch.length = 3;
  for (int64_t each : lengths) {
    for (int64_t j = 0; j < 3; ++j) {
      batch.mask.push_back(j < each ? 1.0f : 0.0f);
    }
  }
  return batch;
}

// (end, head) of every run.
std::vector<std::pair<int64_t, int64_t>> RunsOf(int64_t heads,
                                                const Batch& batch) {
  PackedBatch packed(8, 24, 3);
  EXPECT_OK(packed.Set(batch));
  LteHeadRuns runs(heads, 8);
  runs.Set(batch, packed);
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const LteHeadRun& run : runs.runs())
    found.push_back({run.end, run.head});
  return found;
}

TEST(LteHeadRunsTest, HeadsShareTheBatchInOrder) {
  EXPECT_THAT(RunsOf(2, WithLengths({3, 3, 3, 3})),
              ElementsAre(Pair(6, 0), Pair(12, 1)));
  EXPECT_THAT(RunsOf(4, WithLengths({3, 3, 3, 3})),
              ElementsAre(Pair(3, 0), Pair(6, 1), Pair(9, 2), Pair(12, 3)));
  EXPECT_THAT(RunsOf(1, WithLengths({3, 3})), ElementsAre());
}

TEST(LteHeadRunsTest, FollowsThePackedOrder) {
  // Packed: samples 1 and 3 (three tokens each), then 2, then 0.
  EXPECT_THAT(RunsOf(2, WithLengths({1, 3, 2, 3})),
              ElementsAre(Pair(3, 0), Pair(8, 1), Pair(9, 0)));
}

TEST(LteHeadRunsTest, AMemberKnowsItsPlaceInTheGlobalBatch) {
  Batch batch = WithLengths({3, 3, 3});
  batch.first_sample = 3;
  batch.global_size = 8;  // two samples for each of four heads
  EXPECT_THAT(RunsOf(4, batch), ElementsAre(Pair(3, 1), Pair(9, 2)));
  batch.samples = {0, 1, 7};  // dealt by their lengths
  EXPECT_THAT(RunsOf(4, batch), ElementsAre(Pair(6, 0), Pair(9, 3)));
}

TEST(LteHeadRunsTest, FewerSamplesThanHeads) {
  EXPECT_THAT(RunsOf(4, WithLengths({3, 3})),
              ElementsAre(Pair(3, 0), Pair(6, 1)));
}

TEST(LteHeadRunsTest, FindsTheRunOfARow) {
  LteHeadRuns runs(2, 8);
  runs.Set(std::vector<LteHeadRun>{{3, 1}, {8, 0}});
  const auto at = [&](int64_t row, int64_t rows) {
    const LteHeadRun run = runs.RunAt(row, rows);
    return std::make_pair(run.end, run.head);
  };
  EXPECT_THAT(at(0, 8), Pair(3, 1));
  EXPECT_THAT(at(2, 8), Pair(3, 1));
  EXPECT_THAT(at(3, 8), Pair(8, 0));
  EXPECT_THAT(at(3, 5), Pair(5, 0));    // no further than asked for
  EXPECT_THAT(at(9, 12), Pair(12, 1));  // padding: the last head's
}

TEST(LteHeadRunsTest, TheShapeNamesEveryRun) {
  LteHeadRuns runs(2, 8);
  runs.Set(std::vector<LteHeadRun>{{3, 1}, {8, 0}});
  std::vector<int64_t> shape = {7};
  runs.AppendShape(&shape);
  EXPECT_THAT(shape, ElementsAre(7, 3, 1, 8, 0));
}

}  // namespace
}  // namespace comera::trainer
