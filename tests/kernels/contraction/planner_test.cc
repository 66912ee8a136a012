// The planner against searches that try everything.
#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/contraction/cost_model.h"
#include "kernels/contraction/tt_build_order.h"
#include "tests/kernels/contraction/exhaustive_search.h"

namespace comera::kernels {
namespace {

TtShape RandomShape(std::mt19937* random, int order) {
  const auto pick = [&](int limit) {
    return static_cast<int64_t>(1 + (*random)() % limit);
  };
  TtShape shape;
  const int inputs = static_cast<int>(pick(order - 1));
  for (int k = 0; k < order; ++k) {
    (k < inputs ? shape.input_modes : shape.output_modes).push_back(pick(12));
    if (k > 0) shape.ranks.push_back(pick(20));
  }
  // No more than a bond can hold, as in a model.
  for (int k = 1; k < order; ++k) {
    shape.ranks[k - 1] =
        std::min(shape.ranks[k - 1], shape.LeftRank(k - 1) * shape.Mode(k - 1));
  }
  for (int k = order - 1; k > 0; --k) {
    shape.ranks[k - 1] =
        std::min(shape.ranks[k - 1], shape.Mode(k) * shape.RightRank(k));
  }
  return shape;
}

// All ways to cut `order` cores into groups.
std::vector<std::vector<int>> AllGroupings(int order) {
  std::vector<std::vector<int>> all;
  for (int cuts = 0; cuts < 1 << (order - 1); ++cuts) {
    std::vector<int> ends;
    for (int k = 1; k < order; ++k) {
      if (cuts >> (k - 1) & 1) ends.push_back(k);
    }
    ends.push_back(order);
    all.push_back(ends);
  }
  return all;
}

// Least multiply-adds for contracting cores [first, last), over all binary
// trees of neighbours.
double CheapestTree(const TtShape& s, int first, int last) {
  if (last - first == 1) return 0;
  double best = -1;
  for (int k = first + 1; k < last; ++k) {
    double join = static_cast<double>(s.LeftRank(first) * s.LeftRank(k) *
                                      s.RightRank(last - 1));
    for (int i = first; i < last; ++i) join *= static_cast<double>(s.Mode(i));
    const double cost =
        CheapestTree(s, first, k) + CheapestTree(s, k, last) + join;
    if (best < 0 || cost < best) best = cost;
  }
  return best;
}

TEST(TtBuildOrderTest, NoTreeOfNeighboursIsCheaper) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int order = 2 + round % 6;
    const TtShape shape = RandomShape(&random, order);
    const TtBuildOrder build(shape);
    for (int first = 0; first < order; ++first) {
      for (int last = first + 1; last <= order; ++last) {
        const double cost = build.Cost(first, last);
        EXPECT_EQ(cost, CheapestTree(shape, first, last))
            << "round " << round << ", cores " << first << " to " << last;
        // The cheapest among products of any pairs, neighbours or not: outer
        // products pay now and then where ranks are as large as they can be,
        // and little.
        EXPECT_LE(cost, 1.25 * MakeNetwork(shape, first, last, 0).Cheapest());
      }
    }
  }
}

TEST(PlannerTest, NoGroupingIsCheaper) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const TtShape shape = RandomShape(&random, 2 + round % 6);
    for (const int64_t tokens : {1, 7, 60, 4096}) {
      double best = -1;
      for (const std::vector<int>& ends : AllGroupings(shape.order())) {
        double cost = CostOf(ends, shape, tokens).forward_tokens;
        int first = 0;
        for (int end : ends) {
          cost += CheapestTree(shape, first, end);
          first = end;
        }
        EXPECT_EQ(cost, CostOf(ends, shape, tokens).forward());
        if (best < 0 || cost < best) best = cost;
      }
      const TtChoice choice = ChoosePath(shape, tokens);
      EXPECT_EQ(choice.cost.forward(), best) << "round " << round;
      EXPECT_EQ(choice.cost.backward(), 2 * best);
    }
  }
}

// No contraction of X with the cores, in any order and of any pairs, beats the
// planner's family at the published layers.
TEST(PlannerTest, PublishedLayersHaveNoCheaperContractionAtAll) {
  for (const TtShape& shape :
       {TtShape{{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}},
        TtShape{{12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16}},
        TtShape{{16, 16, 12}, {8, 8, 12}, {16, 30, 30, 30, 12}},
        TtShape{{12, 8, 8}, {8, 8, 12}, {6, 15, 15, 15, 6}},
        TtShape{{12, 8, 8}, {8, 8, 12}, {3, 4, 2, 9, 4}}}) {
    for (const int64_t tokens : {1, 8, 45, 128, 4096}) {
      const TtChoice choice = ChoosePath(shape, tokens);
      const double best =
          MakeNetwork(shape, 0, shape.order(), static_cast<double>(tokens))
              .Cheapest();
      EXPECT_EQ(choice.cost.forward(), best)
          << tokens << " tokens, " << GroupsText(choice.ends);
    }
  }
}

TEST(PlannerTest, NoGroupingIsFaster) {
  std::mt19937 random(7);
  MachineSpeed slow_calls;
  slow_calls.call_seconds = 1e-4;
  for (int round = 0; round < 100; ++round) {
    const TtShape shape = RandomShape(&random, 2 + round % 5);
    for (const MachineSpeed& speed : {MachineSpeed{}, slow_calls}) {
      for (const int64_t tokens : {1, 30, 5000}) {
        const TtChoice choice = ChoosePath(shape, tokens, shape.Cols(), speed);
        const double chosen =
            SecondsOf(choice.ends, shape, tokens, speed).total();
        for (const std::vector<int>& ends : AllGroupings(shape.order())) {
          const double other = SecondsOf(ends, shape, tokens, speed).total();
          if (choice.path == TtPath::kPrefixSuffix) {
            EXPECT_GE(other, kClearGain * chosen * (1 - 1e-12));
          } else {
            EXPECT_GE(other, chosen * (1 - 1e-12));
          }
        }
      }
    }
  }
}

TEST(PlannerTest, FewerOutputsThanColumnsKeepTheOutputModesTogether) {
  const TtShape shape = {{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
  ASSERT_GT(ChoosePath(shape, 1, 768, MachineSpeed{}).ends.size(), 3u);
  const TtChoice choice = ChoosePath(shape, 1, 767, MachineSpeed{});
  ASSERT_GE(choice.ends.size(), 2u);
  EXPECT_LE(choice.ends[choice.ends.size() - 2], 3);
}

TEST(PlannerTest, NamesOfGroupings) {
  const TtShape shape = {{2, 3, 4}, {4, 3}, {2, 2, 2, 2}};
  EXPECT_EQ(GroupEnds(TtPath::kPrefixSuffix, shape), (std::vector<int>{3, 5}));
  EXPECT_EQ(GroupEnds(TtPath::kDense, shape), std::vector<int>{5});
  EXPECT_EQ(GroupEnds(TtPath::kCoreByCore, shape),
            (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_EQ(PathOf(shape, {3, 5}), TtPath::kPrefixSuffix);
  EXPECT_EQ(PathOf(shape, {2, 5}), TtPath::kGrouped);
  // Two cores one by one are the two halves.
  EXPECT_EQ(PathOf({{5}, {3}, {2}}, {1, 2}), TtPath::kPrefixSuffix);
  EXPECT_EQ(GroupsText({3, 5}), "123|45");
  EXPECT_EQ(GroupsText({1, 11}), "1|2,3,4,5,6,7,8,9,10,11");
}

TEST(MachineSpeedTest, ThinAndTinyProductsAreSlower) {
  const MachineSpeed speed;
  const double square = GemmSeconds(speed, 4096, 4096, 4096);
  EXPECT_NEAR(square, 4096. * 4096 * 4096 / speed.square_rate, 0.02 * square);
  const double thin = GemmSeconds(speed, 8192, 768, 30);
  EXPECT_NEAR(thin, 8192. * 768 * 30 / speed.skinny_rate, 0.02 * thin);
  EXPECT_NEAR(GemmSeconds(speed, 2, 2, 2), speed.call_seconds,
              0.01 * speed.call_seconds);
  EXPECT_EQ(GemmSeconds(speed, 0, 5, 5), 0);
}

}  // namespace
}  // namespace comera::kernels
