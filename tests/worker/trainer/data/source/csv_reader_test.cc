// Tests reading CSV as RFC 4180 defines it, and what is refused.
#include "worker/trainer/data/source/csv_reader.h"

#include <string>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Records = std::vector<std::vector<std::string>>;

class CsvReaderTest : public ::testing::Test {
 protected:
  absl::StatusOr<Records> Read(const std::string& contents,
                               size_t limit = CsvReader::kMaxRecordBytes) {
    ASSIGN_OR_RETURN(const auto reader,
                     CsvReader::Open(folder_.Write("f.csv", contents), limit));
    Records records;
    lines_.clear();
    while (true) {
      std::vector<std::string> fields;
      ASSIGN_OR_RETURN(const bool more, reader->Next(&fields));
      if (!more) return records;
      records.push_back(fields);
      lines_.push_back(reader->line_number());
    }
  }
  TempFolder folder_;
  std::vector<int64_t> lines_;
};

TEST_F(CsvReaderTest, PlainFields) {
  EXPECT_EQ(*Read(""), Records());
  EXPECT_EQ(*Read("a,b\r\n1,\r\n"), Records({{"a", "b"}, {"1", ""}}));
  EXPECT_EQ(*Read("a,b\n,"), Records({{"a", "b"}, {"", ""}}));
  EXPECT_EQ(*Read("a b , c"), Records({{"a b ", " c"}}));
  EXPECT_EQ(*Read(Gzip("a,b\n1,2\n")), Records({{"a", "b"}, {"1", "2"}}));
}

TEST_F(CsvReaderTest, QuotedFields) {
  EXPECT_EQ(*Read("\"a,b\",\"c\"\"d\",\"\"\n"), Records({{"a,b", "c\"d", ""}}));
  EXPECT_EQ(*Read("x,\"one\r\ntwo\n\nfour\"\ny,z\n"),
            Records({{"x", "one\ntwo\n\nfour"}, {"y", "z"}}));
  // A record is named by the line on which it begins.
  EXPECT_EQ(lines_, std::vector<int64_t>({1, 5}));
}

TEST_F(CsvReaderTest, EmptyLinesAndByteOrderMarks) {
  EXPECT_EQ(*Read("\xEF\xBB\xBF"
                  "a,b\n\n1,2\n\n"),
            Records({{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(lines_, std::vector<int64_t>({1, 3}));
}

// Messages name line and column, and say nothing of the contents.
TEST_F(CsvReaderTest, MalformedRecords) {
  const auto refused = [](const std::string& place, const std::string& what) {
    return StatusIs(
        absl::StatusCode::kDataLoss,
        AllOf(HasSubstr(place), HasSubstr(what), Not(HasSubstr("secret"))));
  };
  EXPECT_THAT(Read("a,b\nx,\"secret\n\nmore\n"),
              refused("f.csv:2: column 2", "never closed"));
  EXPECT_THAT(Read("a,b\nsecret\"x,y\n"),
              refused("f.csv:2: column 1", "not quoted"));
  EXPECT_THAT(Read("a,b\n\"x\"secret,y\n"),
              refused("f.csv:2: column 1", "closing quote"));
  EXPECT_THAT(Read(std::string("a\0b", 3)), refused("f.csv:1", "NUL"));
}

TEST_F(CsvReaderTest, RecordsAreBounded) {
  EXPECT_OK(Read("\"" + std::string(10, 'x') + "\"", 20));
  EXPECT_THAT(Read("\"" + std::string(8, 'x') + "\n" + std::string(8, 'x') +
                       "\n" + std::string(8, 'x') + "\"",
                   20),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("longer than")));
  EXPECT_THAT(Read("x,\"12345678\n\",\"12345678\n\"", 16),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("longer than")));
}

}  // namespace
}  // namespace comera::trainer
