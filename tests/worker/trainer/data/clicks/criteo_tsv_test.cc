// Tests reading Criteo's format, malformed lines included.
#include "worker/trainer/data/clicks/criteo_tsv.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Part = ClickSource::Part;

// A row with these first integers and first categories; the others are empty.
std::string Row(const std::string& label, std::vector<std::string> integers,
                std::vector<std::string> categories) {
  integers.resize(kCriteoIntegers);
  categories.resize(kCriteoCategories);
  return absl::StrCat(label, "\t", absl::StrJoin(integers, "\t"), "\t",
                      absl::StrJoin(categories, "\t"), "\n");
}

struct ReadRow {
  int32_t label = 0;
  std::vector<float> dense;
  std::vector<int32_t> categories;
};
ReadRow At(const ClickTable& table, Part part, int64_t row) {
  ReadRow read;
  read.dense.resize(table.shape().dense_features);
  read.categories.resize(table.shape().tables());
  read.label =
      table.Read(part, row, read.dense.data(), read.categories.data(), 1);
  return read;
}

class CriteoTsvTest : public ::testing::Test {
 protected:
  v1::CriteoTsv Spec(const std::vector<std::string>& files, int parts = 2) {
    v1::CriteoTsv spec;
    for (const std::string& file : files) spec.add_files(file);
    spec.set_parts(parts);
    return spec;
  }
  // Reads one file that holds `contents`.
  absl::Status StatusOf(const std::string& contents) {
    return ReadCriteoTsv(Spec({folder_.Write("log.tsv", contents)}), {})
        .status();
  }
  TempFolder folder_;
};

TEST_F(CriteoTsvTest, PreprocessesAsPublished) {
  const std::string path = folder_.Write(
      "log.tsv", Row("1", {"5", "-2", "", "0"}, {"62770d79", "ff"}) +
                     Row("0", {"12345678"}, {"62770D79", "0ff"}) +
                     Row("0", {}, {"", "ff"}) + Row("1", {}, {"a", ""}));
  ASSERT_OK_AND_ASSIGN(const ClickTable table, ReadCriteoTsv(Spec({path}), {}));
  EXPECT_EQ(table.rows(Part::kTrain), 2);
  EXPECT_EQ(table.rows(Part::kValidation), 1);
  EXPECT_EQ(table.shape().dense_features, 13);
  ASSERT_EQ(table.shape().tables(), 26);
  EXPECT_EQ(table.shape().table_rows[0], 3);
  EXPECT_EQ(table.shape().table_rows[1], 3);
  EXPECT_EQ(table.shape().table_rows[2], 1);

  const ReadRow first = At(table, Part::kTrain, 0);
  EXPECT_EQ(first.label, 1);
  EXPECT_FLOAT_EQ(first.dense[0], std::log(6.0f));
  for (int i = 1; i < 13; ++i) EXPECT_EQ(first.dense[i], 0);
  EXPECT_EQ(first.categories[0], 0);
  EXPECT_EQ(first.categories[1], 0);
  const ReadRow second = At(table, Part::kTrain, 1);
  EXPECT_EQ(second.label, 0);
  EXPECT_FLOAT_EQ(second.dense[0], std::log(12345679.0f));
  EXPECT_EQ(second.categories[0], 0);
  EXPECT_EQ(second.categories[1], 1);  // "0ff" is not "ff"
  const ReadRow last = At(table, Part::kValidation, 0);
  EXPECT_EQ(last.label, 1);
  EXPECT_EQ(last.categories[0], 2);
}

TEST_F(CriteoTsvTest, FilesFollowEachOtherAndMayBeCompressed) {
  std::string one, two;
  for (int i = 0; i < 10; ++i) {
    (i < 4 ? one : two) += Row(i % 2 == 0 ? "0" : "1", {std::to_string(i)}, {});
  }
  const std::vector<std::string> paths = {folder_.Write("1.tsv", one),
                                          folder_.Write("2.gz", Gzip(two))};
  ASSERT_OK_AND_ASSIGN(const ClickTable table,
                       ReadCriteoTsv(Spec(paths, 5), {}));
  // Four parts of two rows train, of the last part the second row validates.
  ASSERT_EQ(table.rows(Part::kTrain), 8);
  ASSERT_EQ(table.rows(Part::kValidation), 1);
  // Its first row tests.
  ASSERT_EQ(table.rows(Part::kTest), 1);
  EXPECT_FLOAT_EQ(At(table, Part::kTest, 0).dense[0], std::log(9.0f));
  for (int i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(At(table, Part::kTrain, i).dense[0], std::log(1.0f + i));
  }
  EXPECT_FLOAT_EQ(At(table, Part::kValidation, 0).dense[0], std::log(10.0f));
}

TEST_F(CriteoTsvTest, LimitsTables) {
  std::string log;
  for (int i = 0; i < 60; ++i) {
    log += Row("0", {}, {absl::StrCat(i), absl::StrCat(i % 4)});
  }
  v1::CriteoTsv spec = Spec({folder_.Write("log.tsv", log)});
  spec.set_max_table_rows(8);
  ASSERT_OK_AND_ASSIGN(const ClickTable table, ReadCriteoTsv(spec, {}));
  EXPECT_EQ(table.shape().table_rows[0], 8);
  EXPECT_EQ(table.shape().table_rows[1], 4);
  for (int i = 0; i < 30; ++i) {
    const int32_t row = At(table, Part::kTrain, i).categories[0];
    EXPECT_GE(row, i < 6 ? i : 6);
    EXPECT_LE(row, i < 6 ? i : 7);
    EXPECT_EQ(At(table, Part::kTrain, i).categories[1], i % 4);
  }
}

TEST_F(CriteoTsvTest, MalformedContentsAreNamedByPlace) {
  const std::string good = Row("1", {"1"}, {"a"});
  const auto at = [](const char* place, const char* what) {
    return StatusIs(absl::StatusCode::kDataLoss,
                    AllOf(HasSubstr(place), HasSubstr(what)));
  };
  EXPECT_THAT(StatusOf(good + "1\t2\n"), at("log.tsv:2", "2 columns"));
  EXPECT_THAT(StatusOf(good + "\n"), at("log.tsv:2", "1 columns"));
  EXPECT_THAT(StatusOf(good + good.substr(0, good.size() - 1) + "\t\n"),
              at("log.tsv:2", "41 columns"));
  EXPECT_THAT(StatusOf(Row("2", {}, {})),
              at("log.tsv:1: column 1", "expected a label"));
  EXPECT_THAT(StatusOf(Row("", {}, {})), at("column 1", "label"));
  EXPECT_THAT(StatusOf(good + Row("0", {"", "1.5"}, {})),
              at("log.tsv:2: column 3", "expected an integer"));
  EXPECT_THAT(StatusOf(Row("0", {"-"}, {})), at("column 2", "integer"));
  EXPECT_THAT(StatusOf(Row("0", {"9999999999999999999"}, {})),
              at("column 2", "integer"));
  EXPECT_THAT(StatusOf(Row("0", {}, {"xyz"})), at("column 15", "hexadecimal"));
  EXPECT_THAT(StatusOf(Row("0", {}, {"0123456789abcdef"})),
              at("column 15", "hexadecimal"));
  EXPECT_THAT(StatusOf(good + std::string(5000, '1') + "\n"),
              at("log.tsv:2", "longer than"));
  EXPECT_THAT(StatusOf(good + std::string("1\0", 2) + "\n"),
              at("log.tsv:2", "NUL"));
  EXPECT_THAT(StatusOf(""), at("criteo_tsv.files", "too few"));
  EXPECT_THAT(StatusOf(good), at("criteo_tsv.files", "1 rows"));
  EXPECT_THAT(ReadCriteoTsv(Spec({folder_ / "absent"}), {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
  EXPECT_THAT(ReadCriteoTsv(Spec({}), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("files")));
  EXPECT_THAT(ReadCriteoTsv(Spec({"/x"}, 1), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parts")));
}

TEST_F(CriteoTsvTest, SurvivesTheCacheAndRefusesWhatIsDamaged) {
  std::string log;
  for (int i = 0; i < 20; ++i) {
    log += Row(i % 3 == 0 ? "1" : "0", {absl::StrCat(i)}, {absl::StrCat(i)});
  }
  ASSERT_OK_AND_ASSIGN(
      const ClickTable table,
      ReadCriteoTsv(Spec({folder_.Write("log.tsv", log)}), {}));
  std::string bytes;
  table.Serialize(&bytes);
  ASSERT_OK_AND_ASSIGN(const ClickTable again, ClickTable::Parse(bytes));
  EXPECT_EQ(again.shape().table_rows, table.shape().table_rows);
  for (int64_t i = 0; i < table.rows(Part::kValidation); ++i) {
    const ReadRow want = At(table, Part::kValidation, i);
    const ReadRow got = At(again, Part::kValidation, i);
    EXPECT_EQ(got.label, want.label);
    EXPECT_EQ(got.dense, want.dense);
    EXPECT_EQ(got.categories, want.categories);
  }
  EXPECT_THAT(ClickTable::Parse(bytes + "x"),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ClickTable::Parse(bytes.substr(0, bytes.size() - 1)),
              StatusIs(absl::StatusCode::kDataLoss));
  // Whatever byte is damaged, reading stays in bounds.
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x81);
    const auto parsed = ClickTable::Parse(damaged);
    if (!parsed.ok()) continue;
    const ReadRow row = At(*parsed, Part::kTrain, 0);
    EXPECT_LT(row.categories[0], parsed->shape().table_rows[0]);
  }
}

}  // namespace
}  // namespace comera::trainer
