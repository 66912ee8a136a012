// Tests which candidates of a search go on, which model it ends with, and how
// that is said.
#include "server/sweep/search_rule.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/sweep/search_ledger.h"
#include "server/sweep/search_words.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SearchTarget Loss(double loss, int64_t parameters = 0) {
  SearchTarget target;
  target.has_quality = loss > 0;
  target.quality = loss;
  target.parameters = parameters;
  return target;
}

SearchTarget Accuracy(double accuracy) {
  SearchTarget target;
  target.metric = v1::LateStage::kTargetAccuracy;
  target.has_quality = true;
  target.quality = accuracy;
  return target;
}

SearchEntrant Entrant(int id, int64_t size, double quality) {
  SearchEntrant entrant;
  entrant.id = id;
  entrant.name = "candidate";
  entrant.measured = true;
  entrant.size = size;
  entrant.present = size;
  entrant.quality = quality;
  entrant.hope = quality;
  return entrant;
}

std::vector<int> Ids(const std::vector<SearchStop>& stops) {
  std::vector<int> ids;
  for (const SearchStop& stop : stops) ids.push_back(stop.id);
  return ids;
}

TEST(SearchRuleTest, ForASizeAloneAPlaceIsForOneThatLearnsLate) {
  std::vector<SearchEntrant> entrants = {
      Entrant(0, 100, 3.0), Entrant(1, 100, 3.1), Entrant(2, 100, 3.4),
      Entrant(3, 100, 3.3), Entrant(4, 100, 3.2)};
  entrants[2].learns_late = entrants[3].learns_late = true;
  entrants[3].name = "the late one";
  const SearchTarget size = Loss(0, 100);
  const auto stops = StopWorse(size, entrants, 2);
  EXPECT_THAT(Ids(stops), ElementsAre(1, 4, 2));
  EXPECT_EQ(stops[0].reason,
            "stopped: loss 3.1 with 100 parameters; its place is kept for the "
            "late one, which learns late");
  EXPECT_THAT(stops[1].reason, HasSubstr("candidate has loss 3"));
  // One place is for the best; one that leads needs no help.
  EXPECT_THAT(Ids(StopWorse(size, entrants, 1)), ElementsAre(1, 4, 3, 2));
  EXPECT_THAT(Ids(StopWorse(size, entrants, 4)), ElementsAre(2));
  // A quality tells by itself which candidates may still meet it.
  EXPECT_THAT(Ids(StopWorse(Loss(2, 100), entrants, 2)), ElementsAre(4, 3, 2));
}

TEST(SearchRuleTest, TheBeatenGoBeforeTheFar) {
  // The first is farther from the target than the beaten one.
  const auto stops = StopWorse(
      Loss(2),
      {Entrant(0, 100, 3.5), Entrant(1, 300, 3.0), Entrant(2, 200, 2.5)}, 2);
  EXPECT_THAT(Ids(stops), ElementsAre(1));
  EXPECT_THAT(stops[0].reason,
              HasSubstr("has loss 2.5 with 200 parameters, this one 3 with "
                        "300"));
}

TEST(SearchRuleTest, EqualMetricsAreToldApartByTheLoss) {
  std::vector<SearchEntrant> guessing = {Entrant(0, 100, 0.5),
                                         Entrant(1, 200, 0.5)};
  guessing[0].loss = 0.69;
  guessing[1].loss = 0.68;
  EXPECT_THAT(Ids(StopWorse(Accuracy(0.8), guessing, 1)), ElementsAre(0));
}

TEST(SearchRuleTest, WhatPromisesTheQualityIsNotBeatenByWhatDoesNot) {
  std::vector<SearchEntrant> entrants = {Entrant(0, 100, 0.70),
                                         Entrant(1, 200, 0.65)};
  entrants[1].hope = 0.9;
  EXPECT_THAT(Ids(StopWorse(Accuracy(0.8), entrants, 1)), ElementsAre(0));
}

TEST(SearchRuleTest, WhatStillLearnsFasterAndFasterIsJudgedByItsSize) {
  // The small one still guesses, the others promise the quality.
  std::vector<SearchEntrant> entrants = {
      Entrant(0, 100, 0.51), Entrant(1, 200, 0.82), Entrant(2, 300, 0.83)};
  EXPECT_THAT(Ids(StopWorse(Accuracy(0.8), entrants, 2)), ElementsAre(0));
  entrants[0].speeding_up = true;
  EXPECT_THAT(Ids(StopWorse(Accuracy(0.8), entrants, 2)), ElementsAre(2));
}

// Whether losses that were validated every 100 steps of 2,000 speed up.
bool SpeedingUp(const std::vector<double>& losses) {
  google::protobuf::RepeatedPtrField<QualitySample> samples;
  for (double loss : losses) {
    QualitySample& sample = *samples.Add();
    sample.set_spent(100 * samples.size());
    sample.set_loss(loss);
  }
  return IsSpeedingUp(samples, 2000);
}

TEST(SearchRuleTest, ALossThatFallsFasterAndFasterSpeedsUp) {
  EXPECT_TRUE(SpeedingUp({6, 6, 6, 5.8, 5.4, 5, 4.6, 4.2}));
  EXPECT_TRUE(SpeedingUp({6, 5.9, 5.8, 5.7, 5.6, 5.5, 5.4, 5.3}));
  EXPECT_FALSE(SpeedingUp({6, 5, 4.5, 4.3, 4.2, 4.1, 4, 4}));
  // Noise is no gain.
  EXPECT_FALSE(SpeedingUp({6, 6, 5.99, 6, 5.97, 6, 5.98, 6}));
}

TEST(SearchRuleTest, ALossThatHasNotFallenMayBeginAtTheStartOnly) {
  EXPECT_TRUE(SpeedingUp({6, 6.1, 5.99, 6}));
  EXPECT_FALSE(SpeedingUp({6, 6.1, 5.99, 6, 6}));
  EXPECT_FALSE(SpeedingUp({6, 4, 4, 4})) << "it has fallen before";
  google::protobuf::RepeatedPtrField<QualitySample> samples;
  for (int step = 10; step <= 400; step += 10) {
    QualitySample& sample = *samples.Add();
    sample.set_spent(step);
    sample.set_size_parameters(100);
    sample.set_loss(step < 50 ? 6 : 5);
  }
  EXPECT_FALSE(IsSpeedingUp(samples, 2000)) << "it has fallen before a quarter";
  for (QualitySample& sample : samples) sample.set_loss(6);
  EXPECT_TRUE(IsSpeedingUp(samples, 2000));
  samples.rbegin()->set_size_parameters(49);
  EXPECT_FALSE(IsSpeedingUp(samples, 2000)) << "it was pruned";
}

TEST(SearchRuleTest, NothingSpeedsUpAfterHalfOfItsTraining) {
  std::vector<double> losses = {6, 6, 6, 6, 6, 5.5, 5, 4.5, 4, 3.5};
  EXPECT_TRUE(SpeedingUp(losses));
  losses.push_back(3);
  EXPECT_FALSE(SpeedingUp(losses));
}

TEST(SearchRuleTest, TooFewValidationsSayNothing) {
  EXPECT_FALSE(SpeedingUp({6}));
  EXPECT_FALSE(SpeedingUp({6, 5, 4})) << "none in the first quarter";
}

TEST(SearchRuleTest, OfTheUnbeatenTheFarthestFromTheQualityGo) {
  const auto stops = StopWorse(Accuracy(0.8),
                               {Entrant(0, 100, 0.60), Entrant(1, 200, 0.70),
                                Entrant(2, 300, 0.75), Entrant(3, 400, 0.79)},
                               2);
  EXPECT_THAT(Ids(stops), ElementsAre(1, 0));
  EXPECT_THAT(stops[0].reason, HasSubstr("farther from the target 0.8"));
}

TEST(SearchRuleTest, OfThoseThatWillMeetItTheSmallestGoOn) {
  std::vector<SearchEntrant> entrants = {
      Entrant(0, 100, 0.70), Entrant(1, 200, 0.75), Entrant(2, 300, 0.82),
      Entrant(3, 400, 0.85)};
  entrants[1].hope = 0.81;
  EXPECT_THAT(Ids(StopWorse(Accuracy(0.8), entrants, 2)), ElementsAre(3, 0));
}

TEST(SearchRuleTest, WhatIsUnmeasuredGoesFirst) {
  std::vector<SearchEntrant> entrants = {Entrant(1, 900, 2.0),
                                         Entrant(2, 950, 3.0)};
  entrants.push_back({});
  entrants.back().id = 3;
  const auto stops = StopWorse(Loss(0, 1000), entrants, 2);
  EXPECT_THAT(Ids(stops), ElementsAre(3));
  EXPECT_THAT(stops[0].reason, HasSubstr("no validation"));
}

TEST(SearchRuleTest, WhatHasYetToShrinkBeatsOnlyWhatIsLargerThanItIsNow) {
  SearchEntrant shrinking = Entrant(0, 50, 2.0);
  shrinking.present = 100;
  // Neither beats the other: who would be stopped has the worse metric.
  EXPECT_THAT(StopWorse(Loss(1), {shrinking, Entrant(1, 80, 2.1)}, 1)[0].reason,
              HasSubstr("farther from the target"));
  EXPECT_THAT(
      StopWorse(Loss(1), {shrinking, Entrant(1, 120, 2.1)}, 1)[0].reason,
      HasSubstr("has loss 2 with 100 parameters"));
}

TEST(SearchRuleTest, WithASizeAloneTheLowestLossGoesOn) {
  EXPECT_THAT(Ids(StopWorse(Loss(0, 1000),
                            {Entrant(0, 500, 3.0), Entrant(1, 1000, 2.0),
                             Entrant(2, 900, 2.5)},
                            1)),
              ElementsAre(2, 0));
}

TEST(SearchRuleTest, TheSmallestThatMeetsTheQualityIsChosen) {
  const auto choice = ChooseModel(
      Accuracy(0.8),
      {{0, 400, 0.85, true}, {1, 200, 0.81, true}, {2, 100, 0.79, false}});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->id, 1);
  EXPECT_TRUE(choice->met);
}

TEST(SearchRuleTest, WhatSeemsToMeetTheQualityWithoutConfidenceDoesNot) {
  const auto choice =
      ChooseModel(Accuracy(0.8), {{0, 400, 0.85, true}, {1, 200, 0.81, false}});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->id, 0);
  EXPECT_TRUE(choice->met);
}

TEST(SearchRuleTest, IfNoneMeetsItTheNearestWithinTheSizeIsChosen) {
  const auto choice =
      ChooseModel(Loss(2, 300), {{0, 400, 1.5}, {1, 300, 2.4}, {2, 100, 2.6}});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->id, 1);
  EXPECT_FALSE(choice->met);
  EXPECT_FALSE(ChooseModel(Loss(2), {}).has_value());
}

TEST(SearchRuleTest, AFileThatItsHeaderMakesTooLargeMissesTheSize) {
  v1::LateStage late;
  late.set_target_bytes(40'003);
  const SearchTarget target = SearchTargetOf(late);
  EXPECT_EQ(target.SizeOf(10'000, 40'003), 10'000);
  EXPECT_TRUE(target.MeetsSize(target.SizeOf(9'900, 40'003)));
  EXPECT_FALSE(target.MeetsSize(target.SizeOf(9'900, 40'004)));
  // An older trainer does not tell the file's size.
  EXPECT_EQ(target.SizeOf(9'900, 0), 9'900);
  late.set_target_parameters(10'000);
  EXPECT_EQ(SearchTargetOf(late).SizeOf(10'000, 40'500), 10'000);
}

TEST(SearchRuleTest, WithASizeAloneTheBestWithinItIsChosen) {
  const auto choice = ChooseModel(
      Loss(0, 300),
      {{0, 400, 1.5, true}, {1, 300, 2.4, true}, {2, 100, 2.6, true}});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->id, 1);
  EXPECT_TRUE(choice->met);
}

TEST(SearchWordsTest, TheChoiceIsExplainedBesideTheOthers) {
  std::vector<SearchAccount> accounts(3);
  accounts[0] = {
      "method=comera width=128 rank=16", true, true, 61203, 0.8125, true, true};
  accounts[1] = {
      "method=dense width=64", true, true, 170234, 0.803, true, false};
  accounts[2] = {
      "method=cola width=128 rank=32", true, false, 439000, 0.74, false, false};
  EXPECT_EQ(
      ExplainChoice(Accuracy(0.8), accounts, 0, true),
      "comera with width 128, rank 16 reached accuracy 0.8125 with 61,203 "
      "parameters (target: accuracy 0.8); 2 others were tried: dense with "
      "width "
      "64 needed 170,234 parameters for it; cola with width 128, rank 32 was "
      "stopped at accuracy 0.74 with 439,000 parameters; 1 candidate came from "
      "finished jobs on the same data");
  EXPECT_THAT(ExplainChoice(Accuracy(0.9), accounts, 0, false),
              HasSubstr("and misses the target (accuracy 0.9)"));
  accounts[2].measured = false;
  accounts[2].needless = true;
  EXPECT_THAT(ExplainChoice(Accuracy(0.8), accounts, 0, true),
              HasSubstr("; 1 other was tried: dense with width 64 needed "
                        "170,234 parameters for it; 1 was not begun, because "
                        "a smaller model had met the target; "));
  EXPECT_EQ(ExplainChoice(Accuracy(0.8), accounts, -1, false),
            "none of 3 candidates ended with a model");
  EXPECT_EQ(CandidateWords(
                "method=dense width=64 output=tied optimizer=muon rate=0.02"),
            "dense with width 64, tied output, optimizer muon, learning rate "
            "0.02");
}

}  // namespace
}  // namespace comera::server
