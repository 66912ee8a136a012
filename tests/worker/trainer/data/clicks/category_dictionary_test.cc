// Tests the saved dictionary of categorical values.
#include "worker/trainer/data/clicks/category_dictionary.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CategoryDictionaryTest, NumbersInOrderOfFirstAppearance) {
  CategoryDictionary dictionary;
  EXPECT_EQ(dictionary.Add(70), 0);
  EXPECT_EQ(dictionary.Add(7), 1);
  EXPECT_EQ(dictionary.Add(70), 0);
  EXPECT_EQ(dictionary.Add(0), 2);
  EXPECT_EQ(dictionary.size(), 3);
  EXPECT_EQ(dictionary.Rows(0), 3);
  EXPECT_THAT(dictionary.RowsOfNumbers(0), IsEmpty());
  EXPECT_THAT(dictionary.RowsOfNumbers(3), IsEmpty());
}

TEST(CategoryDictionaryTest, RareValuesShareTheLastRows) {
  CategoryDictionary dictionary;
  // Value v occurs v + 1 times: the later, the more frequent.
  for (uint64_t value = 0; value < 40; ++value) {
    for (uint64_t i = 0; i <= value; ++i) dictionary.Add(value);
  }
  EXPECT_EQ(dictionary.Rows(8), 8);
  const std::vector<int32_t> rows = dictionary.RowsOfNumbers(8);
  ASSERT_EQ(rows.size(), 40u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(rows[39 - i], i);
  std::set<int32_t> shared(rows.begin(), rows.begin() + 34);
  EXPECT_THAT(shared, ElementsAre(6, 7));
}

TEST(CategoryDictionaryTest, TwoRowsAreTheLeast) {
  CategoryDictionary dictionary;
  for (uint64_t value : {5, 6, 6, 7}) dictionary.Add(value);
  EXPECT_THAT(dictionary.RowsOfNumbers(2), ElementsAre(1, 0, 1));
}

}  // namespace
}  // namespace comera::trainer
