// Tests which rows the values of a column get.
#include "worker/trainer/data/clicks/category_tables.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/clicks/category_dictionary.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

// Every value has the row that training gave it.
TEST(CategoryTablesTest, KnowsTheRowsOfTheDictionary) {
  CategoryDictionary dictionary;
  std::vector<uint64_t> values;
  for (uint64_t i = 0; i < 300; ++i) {
    const uint64_t value = i * i % 101 * 7919;
    dictionary.Add(value);
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(value);
    }
  }
  for (int64_t most : {0, 2, 9, 20, 1000}) {
    ASSERT_OK_AND_ASSIGN(const CategoryTables tables,
                         CategoryTables::Create({{dictionary.OwnValues(most),
                                                  dictionary.Rows(most)}}));
    const TempFolder folder;
    ASSERT_OK(tables.Save(folder.path()));
    ASSERT_OK_AND_ASSIGN(const CategoryTables loaded,
                         CategoryTables::Load(folder.path()));
    const std::vector<int32_t> rows = dictionary.RowsOfNumbers(most);
    for (size_t number = 0; number < values.size(); ++number) {
      const int32_t expected =
          rows.empty() ? static_cast<int32_t>(number) : rows[number];
      EXPECT_EQ(tables.Row(0, values[number]), expected);
      EXPECT_EQ(loaded.Row(0, values[number]), expected);
    }
  }
}

TEST(CategoryTablesTest, UnseenValuesHaveTheEmptyOnesRowOrTheLast) {
  ASSERT_OK_AND_ASSIGN(const CategoryTables tables,
                       CategoryTables::Create({{{5, 0, 6}, 3}, {{5, 6}, 2}}));
  EXPECT_EQ(tables.Row(0, 99), 1);
  EXPECT_EQ(tables.Row(1, 99), 1);
}

TEST(CategoryTablesTest, ImpossibleTablesAreRefused) {
  EXPECT_THAT(CategoryTables::Create({{{1, 2}, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CategoryTables::Create({{{}, 0}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CategoryTables::Create({{{1, 1}, 4}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  const TempFolder folder;
  EXPECT_THAT(CategoryTables::Load(folder.path()),
              StatusIs(absl::StatusCode::kNotFound));
  Safetensors file;
  const std::vector<int64_t> rows = {4, 4};
  ASSERT_OK(file.AddInt64("rows", {2}, rows.data(), 2));
  ASSERT_OK(file.AddInt64("values.0", {2}, rows.data(), 2));
  ASSERT_OK(file.WriteAtomically(folder / CategoryTables::kFile));
  EXPECT_THAT(CategoryTables::Load(folder.path()),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace comera::trainer
