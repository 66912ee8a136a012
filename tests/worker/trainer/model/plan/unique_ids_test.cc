// Tests the distinct ids of a batch.
#include "worker/trainer/model/plan/unique_ids.h"

#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

TEST(UniqueIdsTest, SaysWhoUsesWhat) {
  UniqueIds ids("token id", 8, 10131227);
  ASSERT_OK(ids.Set(Ids{7, 10131226, 7, 0, 7, 0}));
  EXPECT_EQ(ids.count(), 3);
  EXPECT_THAT(ids.unique(), ElementsAre(0, 7, 10131226));
  EXPECT_THAT(ids.index(), ElementsAre(1, 2, 1, 0, 1, 0));
  EXPECT_THAT(ids.order(), ElementsAre(3, 5, 0, 2, 4, 1));
  EXPECT_THAT(ids.start(), ElementsAre(0, 2, 5, 6));
  ASSERT_OK(ids.Set(Ids{}));
  EXPECT_EQ(ids.count(), 0);
  EXPECT_THAT(ids.index(), IsEmpty());
  EXPECT_THAT(ids.start(), ElementsAre(0));
}

TEST(UniqueIdsTest, CountsTheFirstIdsWhetherUsedOrNot) {
  UniqueIds ids("token id", 4, 10, /*always=*/3);
  ASSERT_OK(ids.Set(Ids{7, 1, 7, 5}));
  EXPECT_THAT(ids.unique(), ElementsAre(0, 1, 2, 5, 7));
  EXPECT_THAT(ids.index(), ElementsAre(4, 1, 4, 3));
  EXPECT_THAT(ids.order(), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(ids.start(), ElementsAre(0, 0, 1, 1, 2, 4));
  ASSERT_OK(ids.Set(Ids{}));
  EXPECT_THAT(ids.unique(), ElementsAre(0, 1, 2));
  EXPECT_THAT(ids.start(), ElementsAre(0, 0, 0, 0));
  ASSERT_OK(ids.Set(Ids{2, 0}));
  EXPECT_THAT(ids.unique(), ElementsAre(0, 1, 2));
  EXPECT_THAT(ids.index(), ElementsAre(2, 0));
  EXPECT_THAT(ids.start(), ElementsAre(0, 1, 1, 2));
}

TEST(UniqueIdsTest, RefusesAndKeepsTheIdsBefore) {
  UniqueIds ids("token id", 3, 5);
  ASSERT_OK(ids.Set(Ids{4, 2}));
  EXPECT_THAT(ids.Set(Ids{1, 5}), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("token id 5 at 1")));
  EXPECT_THAT(ids.Set(Ids{-1}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      ids.Set(Ids{1, 1, 1, 1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 3")));
  EXPECT_THAT(ids.unique(), ElementsAre(2, 4));
}

}  // namespace
}  // namespace comera::trainer
