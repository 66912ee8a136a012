// Costs agree with counts by hand, and choices with costs.
#include "kernels/contraction/cost_model.h"

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

// The published six-encoder's layers (REFERENCE.md, "Models").
const TtShape kSquare = {{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
const TtShape kUp = {{12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16}};

TEST(CostModelTest, FewerMultiplyAddsThanDensePerToken) {
  const int64_t tokens = 4096;
  const TtCost square = CostOf(TtPath::kPrefixSuffix, kSquare, tokens);
  EXPECT_EQ(square.forward_tokens, 4096.0 * 30 * (768 + 768));
  EXPECT_EQ(square.backward_tokens, 2 * square.forward_tokens);
  const double dense = DenseCost(768, 768, tokens).forward();
  EXPECT_NEAR(dense / square.forward_tokens, 12.8, 0.01);

  const TtCost up = CostOf(TtPath::kPrefixSuffix, kUp, tokens);
  EXPECT_NEAR(DenseCost(768, 3072, tokens).forward() / up.forward_tokens, 20.5,
              0.03);
}

TEST(CostModelTest, CountsByHand) {
  // A: 12 x (12 x 8 x 30), 96 x (30 x 8 x 30); B mirrored.
  const double build = 2 * (12 * 12 * 8 * 30 + 96 * 30 * 8 * 30);
  const TtCost split = CostOf(TtPath::kPrefixSuffix, kSquare, 10);
  EXPECT_EQ(split.forward_once, build);
  EXPECT_EQ(split.backward_once, 2 * build);

  // One token: 64 x (12 x 12), 8 x (12 x 8 x 30), 30 x 8 x 30; outputs alike.
  const double chain = 2 * (64 * 144 + 8 * 2880 + 7200);
  const TtCost cores = CostOf(TtPath::kCoreByCore, kSquare, 10);
  EXPECT_EQ(cores.forward(), 10 * chain);
  EXPECT_EQ(cores.backward(), 20 * chain);

  const TtCost dense = CostOf(TtPath::kDense, kSquare, 10);
  EXPECT_EQ(dense.forward_tokens, 10.0 * 768 * 768);
  EXPECT_EQ(dense.forward_once, build + 768.0 * 768 * 30);
}

TEST(CostModelTest, ChoosesByTokens) {
  EXPECT_EQ(ChoosePath(kSquare, 1).path, TtPath::kCoreByCore);
  // In between, the outer cores join their neighbours first.
  EXPECT_EQ(ChoosePath(kSquare, 45).path, TtPath::kGrouped);
  EXPECT_EQ(ChoosePath(kSquare, 4096).path, TtPath::kPrefixSuffix);
  EXPECT_EQ(ChoosePath(kUp, 1).path, TtPath::kCoreByCore);
  EXPECT_EQ(ChoosePath(kUp, 4096).path, TtPath::kPrefixSuffix);
  // Core by core against prefix/suffix: against building B from the left as
  // published (52 tokens), B from the right breaks even earlier: 1,451,520 /
  // (78,912 - 46,080) = 44.2; and 3,613,440 / (191,568 - 115,200) = 47.3.
  const auto core_by_core_wins = [](const TtShape& shape, int64_t tokens) {
    return CostOf(TtPath::kCoreByCore, shape, tokens).total() <
           CostOf(TtPath::kPrefixSuffix, shape, tokens).total();
  };
  EXPECT_TRUE(core_by_core_wins(kSquare, 44));
  EXPECT_FALSE(core_by_core_wins(kSquare, 45));
  EXPECT_TRUE(core_by_core_wins(kUp, 47));
  EXPECT_FALSE(core_by_core_wins(kUp, 48));
}

TEST(CostModelTest, ARankAboveTheSmallerSideIsBetterDense) {
  const TtShape wide = {{8}, {8}, {64}};
  const TtChoice choice = ChoosePath(wide, 100000);
  EXPECT_EQ(choice.path, TtPath::kDense);
  EXPECT_EQ(choice.cost.total(), CostOf(TtPath::kDense, wide, 100000).total());
}

TEST(CostModelTest, DeadBondCostsNothing) {
  TtShape dead = kSquare;
  dead.ranks = {0, 0, 0, 0, 0};
  EXPECT_EQ(ChoosePath(dead, 4096).cost.total(), 0);
}

}  // namespace
}  // namespace comera::kernels
