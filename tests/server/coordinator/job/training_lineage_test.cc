// Tests which saved states are part of a job's training after its restarts.
#include "server/coordinator/job/training_lineage.h"

#include "gtest/gtest.h"

namespace comera::server {
namespace {

class TrainingLineageTest : public ::testing::Test {
 protected:
  void Begin(int64_t attempt, int64_t from_attempt, int64_t step) {
    v1::TrainingStateKey key;
    key.set_attempt(from_attempt);
    key.set_step(step);
    AddStart(attempt, key, &starts_);
  }
  bool Has(int64_t attempt, int64_t step) {
    return TrainingLineage(&starts_).Contains(attempt, step);
  }

  AttemptStarts starts_;
};

TEST_F(TrainingLineageTest, WithoutAnyStartAllStatesAreValid) {
  EXPECT_TRUE(Has(1, 1000));
  EXPECT_TRUE(Has(0, 1000));
  EXPECT_EQ(TrainingLineage(&starts_).NewestState(), nullptr);
  EXPECT_EQ(TrainingLineage(&starts_).StartOf(1), nullptr);
}

// What happened: attempt 3 began from step 3000 while a cut-off process of
// attempt 2 saved step 3400, from which attempt 4 went on.
TEST_F(TrainingLineageTest, ALateStateOfACutOffAttemptIsInvalid) {
  Begin(2, 1, 1000);
  Begin(3, 2, 3000);
  EXPECT_FALSE(Has(2, 3400));
  EXPECT_TRUE(Has(2, 3000));
  EXPECT_TRUE(Has(3, 3400));
  EXPECT_FALSE(Has(1, 3000));
  EXPECT_TRUE(Has(1, 1000));
}

TEST_F(TrainingLineageTest, AnUnknownAttemptIsJudgedByEveryStart) {
  Begin(2, 1, 1000);
  Begin(3, 2, 3000);
  EXPECT_TRUE(Has(0, 1000));
  EXPECT_FALSE(Has(0, 1001));
}

TEST_F(TrainingLineageTest, ALaterEarlierStartDecidesForAllBefore) {
  Begin(2, 1, 1000);
  Begin(3, 2, 3000);
  Begin(4, 1, 500);
  EXPECT_EQ(starts_.size(), 1);
  EXPECT_FALSE(Has(1, 1000));
  EXPECT_FALSE(Has(3, 3100));
  EXPECT_TRUE(Has(1, 500));
  EXPECT_TRUE(Has(4, 9000));
}

TEST_F(TrainingLineageTest, StartingOverInvalidatesAllThatWasSaved) {
  Begin(2, 1, 1000);
  Begin(3, 0, 0);
  EXPECT_FALSE(Has(1, 10));
  EXPECT_FALSE(Has(2, 1010));
  EXPECT_TRUE(Has(3, 10));
  EXPECT_EQ(TrainingLineage(&starts_).NewestState(), nullptr);
  ASSERT_NE(TrainingLineage(&starts_).StartOf(3), nullptr);
  EXPECT_FALSE(IsState(*TrainingLineage(&starts_).StartOf(3)));
  Begin(4, 3, 10);
  EXPECT_FALSE(Has(2, 5));
  EXPECT_TRUE(Has(3, 10));
}

TEST_F(TrainingLineageTest, AnExcludedStateLeavesTheOlderOnes) {
  Begin(2, 1, 1000);
  ExcludeStates(2, 1000, &starts_);
  EXPECT_FALSE(Has(1, 1000));
  EXPECT_TRUE(Has(1, 999));
  EXPECT_TRUE(TrainingLineage(&starts_).EndsExcluded());
  EXPECT_EQ(TrainingLineage(&starts_).NewestState(), nullptr);
  Begin(3, 1, 500);
  EXPECT_FALSE(TrainingLineage(&starts_).EndsExcluded());
  EXPECT_EQ(TrainingLineage(&starts_).NewestState()->step(), 500);
  EXPECT_FALSE(Has(1, 1000));
  // The first step's state is excluded, which is not the same as a beginning.
  ExcludeStates(3, 1, &starts_);
  EXPECT_TRUE(TrainingLineage(&starts_).EndsExcluded());
}

TEST_F(TrainingLineageTest, AStateOfTheAttemptItselfIsNotAnExclusion) {
  Begin(2, 2, 10);
  EXPECT_FALSE(TrainingLineage(&starts_).EndsExcluded());
}

TEST_F(TrainingLineageTest, ManyStartsStayFewAndStrict) {
  for (int64_t attempt = 2; attempt < 1000; ++attempt) {
    Begin(attempt, attempt - 1, 10 * attempt);
  }
  EXPECT_EQ(starts_.size(), kMaxAttemptStarts);
  // The starts that are left decide as before.
  EXPECT_TRUE(Has(998, 9990));
  EXPECT_FALSE(Has(998, 9991));
  EXPECT_TRUE(Has(960, 9610));
  EXPECT_FALSE(Has(960, 9611));
  // The others are judged too strictly rather than too mildly.
  EXPECT_FALSE(Has(100, 1011));
  EXPECT_TRUE(Has(1, 20));
  EXPECT_FALSE(Has(1, 21));
}

}  // namespace
}  // namespace comera::server
