// Plans of embedding tables split where it is cheapest and bound their memory.
#include "kernels/contraction/ttm_plan.h"

#include <algorithm>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/contraction/ttm_chain.h"

namespace comera::kernels {
namespace {

// REFERENCE.md, "TTM lookup": 5.2 M + 4.9 M multiply-adds once, then 24,576
// per row against 172,032 for the chain.
TEST(TtmPlanTest, CostsOfTheMnliTable) {
  const TtmShape shape = {{16, 20, 10, 10}, {4, 4, 8, 6}, {32, 32, 32}};
  ASSERT_OK_AND_ASSIGN(const TtmPlan plan, TtmPlan::Create(shape, 10000));
  EXPECT_EQ(plan.split(), 2);
  EXPECT_EQ(plan.cost(), 5242880.0 + 4915200.0 + 10000 * 24576.0);
  EXPECT_EQ(RowByRowCost(shape, 10000), 10000 * 172032.0);
}

// Where the batch is small, only the blocks that it can touch are paid for.
TEST(TtmPlanTest, AFewRowsPayForThemselvesOnly) {
  const TtmShape shape = {{16, 20, 10, 10}, {4, 4, 8, 6}, {32, 32, 32}};
  ASSERT_OK_AND_ASSIGN(const TtmPlan plan, TtmPlan::Create(shape, 3, 2));
  EXPECT_EQ(plan.cost(), 3 * (16384.0 + 49152.0 + 24576.0));
  EXPECT_EQ(plan.steps()[0].max_pairs, 3);
}

TEST(TtmPlanTest, SplitsWhereItIsCheapest) {
  // A table of ten million rows, of which a batch touches a few thousand.
  const TtmShape clicks = {{200, 220, 250}, {2, 2, 4}, {32, 32}};
  ASSERT_OK_AND_ASSIGN(const TtmPlan plan, TtmPlan::Create(clicks, 10000));
  EXPECT_EQ(plan.split(), 2);
  for (const TtmShape& shape :
       {clicks, TtmShape{{5, 5, 5}, {8, 2, 2}, {4, 32}},
        TtmShape{{5, 5, 5}, {2, 2, 8}, {32, 4}},
        TtmShape{{9, 2, 3, 40, 8}, {2, 4, 4, 2, 3}, {7, 20, 9, 4}}}) {
    ASSERT_OK_AND_ASSIGN(const TtmPlan best,
                         TtmPlan::Create(shape, TtmPlan::kTypicalRows));
    for (int split = 1; split < shape.order(); ++split) {
      ASSERT_OK_AND_ASSIGN(
          const TtmPlan other,
          TtmPlan::Create(shape, TtmPlan::kTypicalRows, split));
      EXPECT_LE(best.cost(), other.cost());
    }
    ASSERT_OK_AND_ASSIGN(const TtmPlan share, TtmPlan::Create(shape, 7));
    EXPECT_EQ(share.split(), best.split());
  }
}

TEST(TtmPlanTest, MemoryIsBoundedByTheBatch) {
  const TtmShape shape = {{200, 220, 250}, {2, 2, 4}, {32, 32}};
  ASSERT_OK_AND_ASSIGN(const TtmPlan small, TtmPlan::Create(shape, 1000, 2));
  ASSERT_OK_AND_ASSIGN(const TtmPlan large, TtmPlan::Create(shape, 1 << 20, 2));
  EXPECT_EQ(TtmChain(small).kept_size(), 1000 * 2 * 2 * 32);
  EXPECT_EQ(TtmChain(large).kept_size(), 200 * 220 * 2 * 2 * 32);
  EXPECT_EQ(large.table_rows(), 11000000);
}

TEST(TtmPlanTest, RefusesImpossibleShapes) {
  const int64_t huge = int64_t{1} << 39;
  for (const TtmShape& shape :
       {TtmShape{{3}, {3}, {}}, TtmShape{{3, 2}, {3}, {1}},
        TtmShape{{3, 2}, {3, 0}, {1}}, TtmShape{{3, 2}, {3, 2}, {}},
        TtmShape{{3, 2}, {3, 2}, {-1}}, TtmShape{{huge, 2}, {huge, 2}, {1}},
        TtmShape{{1 << 20, 1 << 10}, {1 << 10, 1}, {1 << 20}},
        TtmShape{{1 << 16, 1 << 15}, {1, 1}, {1}}}) {
    EXPECT_THAT(TtmPlan::Create(shape, 4),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  const TtmShape good = {{3, 2}, {3, 2}, {4}};
  EXPECT_OK(TtmPlan::Create(good, 4));
  for (const auto& status : {TtmPlan::Create(good, -1).status(),
                             TtmPlan::Create(good, 4, 0).status(),
                             TtmPlan::Create(good, 4, 2).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace comera::kernels
