// Rank-space attention is chosen below the width of a head.
#include "kernels/contraction/attention_cost.h"

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

RankSpaceAttentionShape Shape(int64_t length, int64_t rank) {
  return {{32, 32 * length, length, 12, 64}, rank, rank, rank, rank};
}

TEST(AttentionCostTest, SixEncoder) {
  const RankSpaceAttentionShape shape = Shape(128, 30);
  const AttentionCost heads = OrdinaryAttentionCost(shape);
  EXPECT_EQ(heads.forward, 93 * 768 + 2 * 128 * 768 + 768 * 30);
  EXPECT_EQ(heads.backward, 3 * 93 * 768 + 5 * 128 * 768 + 2 * 768 * 30);
  const AttentionCost rank_space = RankSpaceAttentionCost(shape);
  const double factors = 31 * 31 + 31 * 30;
  EXPECT_EQ(rank_space.forward, 12 * (factors + 128 * 61));
  EXPECT_EQ(rank_space.backward, 12 * (3 * factors + 128 * 153));
  EXPECT_TRUE(RankSpaceAttentionPays(shape));
}

TEST(AttentionCostTest, PaysBelowTheWidthOfAHead) {
  for (int64_t length : {32, 128, 512, 2048}) {
    EXPECT_TRUE(RankSpaceAttentionPays(Shape(length, 1)));
    EXPECT_TRUE(RankSpaceAttentionPays(Shape(length, 40)));
    EXPECT_FALSE(RankSpaceAttentionPays(Shape(length, 160)));
  }
  // In long sequences only the scores count.
  EXPECT_TRUE(RankSpaceAttentionPays(Shape(100000, 62)));
  EXPECT_FALSE(RankSpaceAttentionPays(Shape(100000, 65)));
}

TEST(AttentionCostTest, CausalAndGroupedAttentionHaveNoRankSpaceForm) {
  RankSpaceAttentionShape shape = Shape(127, 30);
  shape.attention.causal = true;
  EXPECT_EQ(OrdinaryAttentionCost(shape).forward,
            93 * 768 + 2 * 64 * 768 + 768 * 30);
  EXPECT_FALSE(RankSpaceAttentionPays(shape));
  shape.attention.causal = false;
  shape.attention.kv_heads = 4;
  EXPECT_EQ(OrdinaryAttentionCost(shape).forward,
            31 * 768 + 62 * 256 + 2 * 127 * 768 + 768 * 30);
  EXPECT_FALSE(RankSpaceAttentionPays(shape));
  shape.attention.kv_heads = 12;
  EXPECT_TRUE(RankSpaceAttentionPays(shape));
}

}  // namespace
}  // namespace comera::kernels
