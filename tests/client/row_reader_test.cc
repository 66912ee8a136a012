// Checks rows read from all formats, and the errors for bad ones.

#include "client/predict/row_reader.h"

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RowReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/rows_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    model_.set_family("encoder_classifier");
    model_.add_fields("premise");
    model_.add_fields("hypothesis");
    model_.set_label_field("gold");
  }

  // Reads all rows of `contents`, and how reading ended.
  std::vector<v1::PredictRow> Read(const std::string& contents,
                                   absl::Status* end) {
    std::ofstream(path_, std::ios::binary) << contents;
    std::vector<v1::PredictRow> rows;
    auto source = LineSource::Open(path_);
    EXPECT_OK(source);
    auto reader = RowReader::Create(*std::move(source), model_, options_);
    *end = reader.status();
    if (!reader.ok()) return rows;
    v1::PredictRow row;
    while (true) {
      const absl::StatusOr<bool> more = (*reader)->Next(&row);
      *end = more.status();
      if (!more.ok() || !*more) return rows;
      rows.push_back(row);
    }
  }
  std::vector<v1::PredictRow> ReadAll(const std::string& contents) {
    absl::Status end;
    auto rows = Read(contents, &end);
    EXPECT_OK(end);
    return rows;
  }
  void ExpectRefused(const std::string& contents, const char* what) {
    absl::Status end;
    Read(contents, &end);
    EXPECT_THAT(end,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << contents;
  }

  std::string path_;
  v1::ServedModel model_;
  RowReader::Options options_;
};

TEST_F(RowReaderTest, TsvByTheModelsColumns) {
  options_.format = RowFormat::kTsv;
  options_.labels = true;
  const auto rows =
      ReadAll("hypothesis\tid\tgold\tpremise\r\nb\t1\tyes\ta\r\n\t2\tno\tc");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].text(), "a");
  EXPECT_EQ(rows[0].text_pair(), "b");
  EXPECT_EQ(rows[0].label(), "yes");
  EXPECT_EQ(rows[1].text(), "c");
  EXPECT_TRUE(rows[1].has_text_pair());
}

TEST_F(RowReaderTest, TsvByGivenColumns) {
  options_.format = RowFormat::kTsv;
  options_.columns = {"2", "-1"};
  const auto rows = ReadAll("a\tb\tc\td\n0\t1\t2\t3\n");
  EXPECT_EQ(rows[0].text(), "2");
  EXPECT_EQ(rows[0].text_pair(), "3");
  options_.no_header = true;
  EXPECT_EQ(ReadAll("0\t1\t2\t3\nx\ty\tz\n").size(), 2u);
  ExpectRefused("0\t1\n", ":1: there are 2 columns");
  options_.columns.clear();
  ExpectRefused("0\t1\n", "--columns");
}

TEST_F(RowReaderTest, TsvMistakesNameTheLine) {
  options_.format = RowFormat::kTsv;
  ExpectRefused("", "header");
  ExpectRefused("a\tb\n", ":1: no column 'text'");
  ExpectRefused("text\tx\n1\t2\n1\n", ":3: 1 columns");
  ExpectRefused(std::string("text\n\0\n", 7), ":2: a NUL");
  ExpectRefused("text\n\xff\n", ":2: not UTF-8");
  options_.labels = true;
  ExpectRefused("text\nx\n", "gold");
  options_.columns = {"a", "b", "c"};
  ExpectRefused("a\tb\tc\n", "columns");
}

TEST_F(RowReaderTest, ModelsOfStrangersMayBeImpossible) {
  options_.format = RowFormat::kCriteo;
  model_.set_family("dlrm");
  // Three columns, of which eight would be read.
  model_.set_numbers(-5);
  model_.set_categories(8);
  ExpectRefused("a\tb\tc\n", "fewer than no columns");
  model_.set_numbers(8);
  model_.set_categories(-5);
  ExpectRefused("1\t2\t3\n", "fewer than no columns");
}

TEST_F(RowReaderTest, JsonLines) {
  const auto rows = ReadAll(
      "{\"premise\": \"a\", \"hypothesis\": 3}\n\n"
      "{\"text\": \"only\"}\n{\"text\": \"x\", \"text_pair\": \"y\"}");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].text_pair(), "3");
  EXPECT_EQ(rows[1].text(), "only");
  EXPECT_FALSE(rows[1].has_text_pair());
  EXPECT_EQ(rows[2].text_pair(), "y");
  ExpectRefused("{\"text\": \"a\"}\n[]\n", ":2: not a JSON object");
  ExpectRefused("{\"premise\": \"a\"}\n", "hypothesis");
  ExpectRefused("{\"text\": {}}\n", "no text 'text'");
  ExpectRefused("{\"text\": " + std::string(100000, '[') + "\n", ":1:");
  options_.labels = true;
  ExpectRefused("{\"text\": \"a\"}\n", "gold");
  EXPECT_EQ(ReadAll("{\"text\": \"a\", \"label\": 1}")[0].label(), "1");
}

TEST_F(RowReaderTest, JoinedFieldsAreOneText) {
  model_.set_fields_joined(true);
  const auto rows = ReadAll("{\"premise\": \"a\", \"hypothesis\": \"b\"}");
  EXPECT_EQ(rows[0].text(), "a\nb");
  EXPECT_FALSE(rows[0].has_text_pair());
}

TEST_F(RowReaderTest, EmptyLinesOfTextAreRows) {
  options_.format = RowFormat::kText;
  EXPECT_EQ(ReadAll("a\n\nb\n").size(), 3u);
  options_.labels = true;
  ExpectRefused("a\n", "labels");
}

TEST_F(RowReaderTest, Criteo) {
  model_ = {};
  model_.set_family("dlrm");
  model_.set_numbers(2);
  model_.set_categories(2);
  options_.format = RowFormat::kCriteo;
  const auto rows = ReadAll("1\t5\t\tab\t\n-3\t7\tff\t0\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].numbers(), ElementsAre(5, 0));
  EXPECT_THAT(rows[0].categories(), ElementsAre("ab", ""));
  EXPECT_FALSE(rows[0].has_label());
  EXPECT_THAT(rows[1].numbers(), ElementsAre(-3, 7));
  ExpectRefused("1\t2\n", ":1: 2 columns");
  ExpectRefused("1\tx\t2\ta\tb\n", "column 2: 'x'");
  options_.labels = true;
  EXPECT_EQ(ReadAll("1\t5\t\tab\t\n")[0].label(), "1");
  ExpectRefused("-3\t7\tff\t0\n", ":1: 4 columns");
  options_.format = RowFormat::kTsv;
  ExpectRefused("text\n", "click log");
  options_.format = RowFormat::kJsonl;
  options_.labels = false;
  EXPECT_THAT(ReadAll("{\"numbers\": [1, null], \"categories\": [\"a\", 7]}")[0]
                  .categories(),
              ElementsAre("a", "7"));
  ExpectRefused("{\"numbers\": [\"1\"]}", "numbers");
}

TEST_F(RowReaderTest, GzipAndDamage) {
  options_.format = RowFormat::kText;
  gzFile file = gzopen(path_.c_str(), "wb");
  for (int i = 0; i < 20000; ++i) gzprintf(file, "line %d\n", i * 7919);
  gzclose(file);
  std::ifstream in(path_, std::ios::binary);
  std::string packed((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(ReadAll(packed).size(), 20000u);
  packed.resize(packed.size() / 2);
  ExpectRefused(packed, "damaged");
}

TEST_F(RowReaderTest, LinesHaveALimit) {
  options_.format = RowFormat::kText;
  ExpectRefused("a\n" + std::string(LineSource::kMaxLineBytes + 1, 'x'),
                ":2: longer than");
}

TEST(LineSourceTest, FilesThatAreNone) {
  EXPECT_THAT(LineSource::Open("/nonexistent/x"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(LineSource::Open("/"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::client
