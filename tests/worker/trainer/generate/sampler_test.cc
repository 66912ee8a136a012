// Tests the choice of tokens.
#include "worker/trainer/generate/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pair;

// Probabilities 0.1, 0.4, 0.2, 0.3 but for a factor.
const std::vector<float> kLogits = {std::log(1.0f), std::log(4.0f),
                                    std::log(2.0f), std::log(3.0f)};

SamplingOptions Options(double temperature, int64_t top_k, double top_p) {
  SamplingOptions options;
  options.temperature = temperature;
  options.top_k = top_k;
  options.top_p = top_p;
  return options;
}

std::map<int32_t, double> Distribution(const SamplingOptions& options,
                                       const std::vector<float>& logits) {
  Sampler sampler(options);
  std::map<int32_t, double> distribution;
  const auto candidates = sampler.Candidates(logits);
  EXPECT_OK(candidates);
  if (!candidates.ok()) return distribution;
  for (const Sampler::Candidate& c : *candidates) {
    distribution[c.id] = c.probability;
  }
  return distribution;
}

auto Is(int32_t id, double probability) {
  return Pair(id, DoubleNear(probability, 1e-6));
}

TEST(SamplerTest, TemperatureDividesLogits) {
  EXPECT_THAT(Distribution(Options(1, 0, 1), kLogits),
              ElementsAre(Is(0, 0.1), Is(1, 0.4), Is(2, 0.2), Is(3, 0.3)));
  // Squares: 1, 16, 4, 9 of 30.
  EXPECT_THAT(Distribution(Options(0.5, 0, 1), kLogits),
              ElementsAre(Is(0, 1 / 30.0), Is(1, 16 / 30.0), Is(2, 4 / 30.0),
                          Is(3, 9 / 30.0)));
  EXPECT_THAT(Distribution(Options(1e-300, 0, 1), kLogits)[1],
              DoubleNear(1, 1e-6));
}

TEST(SamplerTest, TopKKeepsTheLargest) {
  EXPECT_THAT(Distribution(Options(1, 2, 1), kLogits),
              ElementsAre(Is(1, 4 / 7.0), Is(3, 3 / 7.0)));
  EXPECT_EQ(Distribution(Options(1, 4, 1), kLogits).size(), 4);
  EXPECT_EQ(Distribution(Options(1, 1000000, 1), kLogits).size(), 4);
  // Equal logits count as larger where the id is smaller.
  EXPECT_THAT(Distribution(Options(1, 2, 1), {1, 1, 1, 1}),
              ElementsAre(Is(0, 0.5), Is(1, 0.5)));
}

TEST(SamplerTest, TopPKeepsTheFewestThatReachIt) {
  EXPECT_THAT(Distribution(Options(1, 0, 0.39), kLogits),
              ElementsAre(Is(1, 1)));
  // The token that crosses the limit is kept.
  EXPECT_THAT(Distribution(Options(1, 0, 0.41), kLogits),
              ElementsAre(Is(1, 4 / 7.0), Is(3, 3 / 7.0)));
  EXPECT_THAT(Distribution(Options(1, 0, 0.89), kLogits),
              ElementsAre(Is(1, 4 / 9.0), Is(2, 2 / 9.0), Is(3, 3 / 9.0)));
  EXPECT_THAT(Distribution(Options(1, 0, 1e-9), kLogits),
              ElementsAre(Is(1, 1)));
  // What top_k leaves counts: 4/9 and 3/9 reach 0.75, not 0.4 and 0.3.
  EXPECT_THAT(Distribution(Options(1, 3, 0.75), kLogits),
              ElementsAre(Is(1, 4 / 7.0), Is(3, 3 / 7.0)));
}

TEST(SamplerTest, TemperatureZeroTakesTheMostProbable) {
  Sampler sampler(Options(0, 0, 1));
  ASSERT_OK_AND_ASSIGN(const int32_t best, sampler.Choose(kLogits, 0));
  EXPECT_EQ(best, 1);
  ASSERT_OK_AND_ASSIGN(const int32_t first, sampler.Choose({2, 5, 5}, 9));
  EXPECT_EQ(first, 1);
}

TEST(SamplerTest, DrawsAsOftenAsTheProbabilitiesSay) {
  SamplingOptions options = Options(1, 3, 1);
  options.seed = 77;
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int place = 0; place < kDraws; ++place) {
    ASSERT_OK_AND_ASSIGN(const int32_t id, sampler.Choose(kLogits, place));
    ++counts[id];
  }
  // Six deviations of a binomial.
  const double within = 6 * std::sqrt(kDraws * 0.25);
  EXPECT_EQ(counts.count(0), 0);
  EXPECT_NEAR(counts[1], kDraws * 4 / 9.0, within);
  EXPECT_NEAR(counts[2], kDraws * 2 / 9.0, within);
  EXPECT_NEAR(counts[3], kDraws * 3 / 9.0, within);
}

TEST(SamplerTest, NumbersDependOnSeedAndPlaceAlone) {
  const auto draw = [](uint64_t seed, int first, int count) {
    SamplingOptions options;
    options.seed = seed;
    Sampler sampler(options);
    std::vector<int32_t> ids;
    for (int i = first; i < first + count; ++i) {
      ids.push_back(*sampler.Choose(kLogits, i));
    }
    return ids;
  };
  const std::vector<int32_t> all = draw(5, 0, 40);
  EXPECT_EQ(draw(5, 20, 20), std::vector<int32_t>(all.begin() + 20, all.end()));
  EXPECT_NE(draw(6, 0, 40), all);
}

TEST(SamplerTest, LogitsThatAreNotFiniteAreRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    for (const double temperature : {0.0, 1.0}) {
      Sampler sampler(Options(temperature, 2, 0.5));
      EXPECT_THAT(sampler.Choose({1, bad, 2}, 0),
                  StatusIs(absl::StatusCode::kFailedPrecondition));
    }
  }
}

}  // namespace
}  // namespace comera::trainer
