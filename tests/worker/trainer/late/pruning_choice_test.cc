// Chosen entries bring the size to its goal at the least cost.
#include "worker/trainer/late/pruning_choice.h"

#include <cmath>
#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Modes 4, 6 and one bond: every entry is worth ten parameters.
PrunableLayer OneBond(std::vector<double> saliency) {
  return {{4, 6}, {std::move(saliency)}};
}

// Three layers of order 4 and 3 with saliencies without a pattern.
std::vector<PrunableLayer> Layers() {
  std::vector<PrunableLayer> layers = {
      {{3, 2, 2, 4},
       {std::vector<double>(6), std::vector<double>(9),
        std::vector<double>(5)}},
      {{6, 4, 5}, {std::vector<double>(8), std::vector<double>(7)}},
      {{8, 8}, {std::vector<double>(12)}}};
  int i = 0;
  for (PrunableLayer& layer : layers) {
    for (auto& bond : layer.saliency) {
      for (double& s : bond) s = 1.01 + std::sin(1.7 * ++i);
    }
  }
  layers[0].saliency[1][3] = -1;  // dead before
  return layers;
}

double Without(std::vector<PrunableLayer> layers, const PruningChoice& choice,
               double fixed) {
  for (const RankEntry& e : choice.entries) {
    layers[e.layer].saliency[e.bond][e.entry] = -1;
  }
  return SizeOf(layers, fixed);
}

TEST(PruningChoiceTest, SizeIsTheFormula) {
  // 3 6 + 2 6 8 + 2 8 5 + 4 5, 6 8 + 4 8 7 + 5 7, 8 12 + 8 12.
  EXPECT_EQ(SizeOf(Layers(), 100), 100 + 214 + 307 + 192);
  std::vector<PrunableLayer> layers = Layers();
  for (double& s : layers[1].saliency[0]) s = -1;  // the layer is gone
  EXPECT_EQ(SizeOf(layers, 0), 214 + 192);
}

TEST(PruningChoiceTest, NothingToDo) {
  const PruningChoice choice = ChooseEntries(Layers(), 10, 1000, 5);
  EXPECT_THAT(choice.entries, IsEmpty());
  EXPECT_EQ(choice.size, 723);
}

TEST(PruningChoiceTest, TheLeastSalientGo) {
  const std::vector<PrunableLayer> layers = {OneBond({5, 1, 4, 2, 3})};
  const PruningChoice choice = ChooseEntries(layers, 7, 37, 0);
  ASSERT_THAT(choice.entries, SizeIs(2));
  EXPECT_EQ(choice.entries[0].entry, 1u);
  EXPECT_EQ(choice.entries[1].entry, 3u);
  EXPECT_EQ(choice.size, 37);
}

TEST(PruningChoiceTest, CostIsPerParameterFreed) {
  // An entry of the first frees 10, of the second 100.
  const std::vector<PrunableLayer> layers = {OneBond({1, 1}),
                                             {{40, 60}, {{5, 5}}}};
  const PruningChoice choice = ChooseEntries(layers, 0, 120, 0);
  ASSERT_THAT(choice.entries, SizeIs(1));
  EXPECT_EQ(choice.entries[0].layer, 1u);
}

TEST(PruningChoiceTest, EndsAtTheGoalForEveryGoal) {
  const std::vector<PrunableLayer> layers = Layers();
  const double fixed = 50, full = SizeOf(layers, fixed);
  const double rank_one = fixed + 3 + 2 + 2 + 4 + 6 + 4 + 5 + 8 + 8;
  for (double goal = rank_one; goal <= full; goal += 1) {
    const PruningChoice choice = ChooseEntries(layers, fixed, goal, 2);
    EXPECT_LE(choice.size, goal);
    EXPECT_EQ(choice.size, Without(layers, choice, fixed)) << goal;
    std::set<std::tuple<size_t, size_t, size_t>> distinct;
    for (const RankEntry& e : choice.entries) {
      distinct.insert({e.layer, e.bond, e.entry});
      EXPECT_GE(layers[e.layer].saliency[e.bond][e.entry], 0);
    }
    EXPECT_EQ(distinct.size(), choice.entries.size());
    // The smallest entry is worth a few parameters at these ranks.
    EXPECT_GE(choice.size, goal - 16) << goal;
  }
}

TEST(PruningChoiceTest, NoChosenEntryCouldHaveStayed) {
  const std::vector<PrunableLayer> layers = Layers();
  for (double goal = 150; goal < 700; goal += 7) {
    const PruningChoice choice = ChooseEntries(layers, 20, goal, 3);
    for (size_t i = 0; i < choice.entries.size(); ++i) {
      PruningChoice fewer = choice;
      fewer.entries.erase(fewer.entries.begin() + i);
      EXPECT_GT(Without(layers, fewer, 20), goal) << goal << " entry " << i;
    }
  }
}

TEST(PruningChoiceTest, LayersGoLast) {
  // Below rank one everywhere one of the layers has to go: the cheaper one.
  std::vector<PrunableLayer> layers = {OneBond({1e-9, 2}), OneBond({3, 4})};
  PruningChoice choice = ChooseEntries(layers, 5, 25, 0);
  EXPECT_EQ(choice.size, 25);
  EXPECT_THAT(choice.entries, SizeIs(2));
  choice = ChooseEntries(layers, 5, 24, 0);
  EXPECT_EQ(choice.size, 15);
  ASSERT_THAT(choice.entries, SizeIs(3));
  EXPECT_EQ(choice.entries[2].layer, 0u);
}

TEST(PruningChoiceTest, AnImpossibleGoalLeavesEveryLayer) {
  const std::vector<PrunableLayer> layers = {OneBond({1, 2}), OneBond({3, 4})};
  const PruningChoice choice = ChooseEntries(layers, 50, 49, 0);
  EXPECT_EQ(choice.size, 70);
  EXPECT_THAT(choice.entries, SizeIs(2));
}

// A layer with a floor loses nothing below it while another layer has entries.
TEST(PruningChoiceTest, FloorsHoldWhileOthersCanGo) {
  std::vector<PrunableLayer> layers = {OneBond({1e-9, 1e-9, 1e-9, 1e-9}),
                                       OneBond({3, 4, 5, 6})};
  layers[0].floor = 3;
  // 80 parameters; 10 go with every entry.
  const PruningChoice some = ChooseEntries(layers, 0, 40, 0);
  EXPECT_EQ(some.size, 40);
  int of_first = 0;
  for (const RankEntry& entry : some.entries) of_first += entry.layer == 0;
  EXPECT_EQ(of_first, 1);
  // Both at their least, the floor gives way before a layer is lost.
  const PruningChoice most = ChooseEntries(layers, 0, 20, 0);
  EXPECT_EQ(most.size, 20);
  of_first = 0;
  for (const RankEntry& entry : most.entries) of_first += entry.layer == 0;
  EXPECT_EQ(of_first, 3);
}

}  // namespace
}  // namespace comera::trainer
