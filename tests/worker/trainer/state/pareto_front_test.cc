// The front holds exactly the models that no other one beats.
#include "worker/trainer/state/pareto_front.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

std::vector<int64_t> Steps(const ParetoFront& front) {
  std::vector<int64_t> steps;
  for (const ParetoCandidate& point : front.points()) {
    steps.push_back(point.step);
  }
  return steps;
}

TEST(ParetoFrontTest, KeepsWhatNoOtherBeats) {
  ParetoFront front;
  EXPECT_TRUE(front.Add({1, 3.0, 100}));
  EXPECT_TRUE(front.Add({2, 2.0, 200}));   // better loss, larger
  EXPECT_TRUE(front.Add({3, 4.0, 50}));    // smaller, worse loss
  EXPECT_FALSE(front.Add({4, 3.5, 150}));  // beaten by 1
  EXPECT_THAT(Steps(front), ::testing::ElementsAre(3, 1, 2));
}

TEST(ParetoFrontTest, TheBeatenLeave) {
  ParetoFront front;
  front.Add({1, 3.0, 100});
  front.Add({2, 2.0, 200});
  front.Add({3, 4.0, 50});
  EXPECT_TRUE(front.Add({4, 1.9, 90}));  // beats 1 and 2
  EXPECT_THAT(Steps(front), ::testing::ElementsAre(3, 4));
}

TEST(ParetoFrontTest, EqualInOneBetterInTheOther) {
  ParetoFront front;
  front.Add({1, 3.0, 100});
  EXPECT_TRUE(front.Add({2, 3.0, 99}));
  EXPECT_TRUE(front.Add({3, 2.9, 99}));
  EXPECT_THAT(Steps(front), ::testing::ElementsAre(3));
}

TEST(ParetoFrontTest, OfEqualsTheFirstStays) {
  ParetoFront front;
  front.Add({1, 3.0, 100});
  EXPECT_FALSE(front.Add({2, 3.0, 100}));
  EXPECT_THAT(Steps(front), ::testing::ElementsAre(1));
}

TEST(ParetoFrontTest, LossThatIsNotFinite) {
  ParetoFront front;
  EXPECT_FALSE(front.Add({1, std::numeric_limits<double>::quiet_NaN(), 1}));
  EXPECT_FALSE(front.Add({1, std::numeric_limits<double>::infinity(), 1}));
  EXPECT_THAT(front.points(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace comera::trainer
