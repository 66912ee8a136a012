// Tests what is found out about data files, damaged ones included.
#include "server/dataset/file_description.h"

#include <zlib.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/temp_dir.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Format = v1::FileDescription;

class FileDescriptionTest : public ::testing::Test {
 protected:
  v1::FileDescription Describe(const std::string& contents,
                               const std::string& name = "f",
                               std::optional<int64_t> column = std::nullopt) {
    const std::string path = folder_.path() + "/blob";
    std::ofstream(path, std::ios::binary) << contents;
    return DescribeFile(path, name, column, limits_);
  }

  static std::string Gzip(const std::string& contents) {
    z_stream stream = {};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, contents.size()) + 32, '\0');
    stream.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
    stream.avail_in = contents.size();
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = out.size();
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  }

  TempDir folder_;
  DescribeLimits limits_;
};

TEST_F(FileDescriptionTest, Tsv) {
  const std::string text =
      "a\tb\tlabel\nx y\tz\tno\nx\ty\tyes\nonly\ttwo\nx\ty\tyes";
  for (const std::string& contents : {text, Gzip(text)}) {
    const auto d = Describe(contents);
    EXPECT_EQ(d.format(), Format::TSV);
    EXPECT_EQ(d.gzip(), contents != text);
    EXPECT_EQ(d.rows(), 4);
    EXPECT_EQ(d.odd_rows(), 1);
    EXPECT_THAT(d.columns(), ElementsAre("a", "b", "label"));
    ASSERT_EQ(d.labels_size(), 3);
    EXPECT_EQ(d.labels(0).label(), "yes");
    EXPECT_EQ(d.labels(0).rows(), 2);
    // 4, 3, 2 and 3 words.
    ASSERT_EQ(d.lengths_size(), 2);
    EXPECT_EQ(d.lengths(0).at_most(), 2);
    EXPECT_EQ(d.lengths(0).rows(), 1);
    EXPECT_EQ(d.lengths(1).at_most(), 4);
    EXPECT_EQ(d.lengths(1).rows(), 3);
    EXPECT_EQ(d.problem(), "");
  }
  EXPECT_EQ(Describe(text, "f", 0).labels(0).label(), "x");
  EXPECT_EQ(Describe(text, "f", 99).labels_size(), 0);
}

TEST_F(FileDescriptionTest, JsonLines) {
  const auto d = Describe(
      "{\"code\": \"a b c\", \"label\": 1}\n{\"code\": \"d\", \"label\": 1}\n"
      "[1]\nnot json\n");
  EXPECT_EQ(d.format(), Format::JSONL);
  EXPECT_EQ(d.rows(), 4);
  EXPECT_EQ(d.odd_rows(), 2);
  EXPECT_THAT(d.columns(), ElementsAre("code", "label"));
  EXPECT_EQ(d.labels(0).label(), "1");
  EXPECT_EQ(d.labels(0).rows(), 2);
}

TEST_F(FileDescriptionTest, ClickLog) {
  std::string row = "1";
  for (int i = 0; i < 39; ++i) row += "\t" + std::to_string(i);
  const auto d = Describe(row + "\n0" + row.substr(1) + "\n" + row + "\n");
  EXPECT_EQ(d.format(), Format::CRITEO);
  EXPECT_EQ(d.rows(), 3);
  EXPECT_EQ(d.labels(0).label(), "1");
  EXPECT_EQ(d.labels(0).rows(), 2);
}

TEST_F(FileDescriptionTest, HostileFiles) {
  EXPECT_EQ(Describe("").format(), Format::OTHER);
  EXPECT_EQ(Describe(std::string("a\0b", 3)).format(), Format::OTHER);
  EXPECT_EQ(Describe("garbage", "m.safetensors").rows(), 0);
  // Bytes that are not UTF-8 do not reach protobuf.
  const auto raw = Describe("a\xff\tb\n1\t\xfe\n");
  EXPECT_EQ(raw.columns(0), "a\xef\xbf\xbd");
  EXPECT_EQ(raw.labels(0).label(), "\xef\xbf\xbd");
  EXPECT_FALSE(raw.SerializeAsString().empty());
  // Damaged gzip.
  std::string damaged = Gzip("some\nlines\n");
  damaged[damaged.size() - 6] ^= 0x55;  // a byte in the checksum
  EXPECT_THAT(Describe(damaged).problem(), HasSubstr("damaged"));
  // Deep JSON.
  EXPECT_EQ(Describe("{\"a\":1}\n" + std::string(100000, '[')).odd_rows(), 1);
  EXPECT_THAT(
      DescribeFile("/nonexistent", "f", std::nullopt, limits_).problem(),
      HasSubstr("cannot be opened"));
}

TEST_F(FileDescriptionTest, IsBounded) {
  limits_.max_bytes = 1 << 20;
  limits_.max_line_bytes = 1000;
  std::string rows;
  for (int i = 0; i < 1000000; ++i) rows += "x\n";
  // A small file that unpacks to much.
  const auto d = Describe(Gzip(rows));
  EXPECT_TRUE(d.truncated());
  EXPECT_LT(d.rows(), 700000);
  EXPECT_GT(d.rows(), 500000);
  EXPECT_THAT(Describe(std::string(2000000, 'y')).problem(),
              HasSubstr("longer than 1000"));
  // A column with as many labels as rows holds no labels.
  std::string ids = "a\tid\n";
  for (int i = 0; i < 10001; ++i) ids += "x\t" + std::to_string(i) + "\n";
  EXPECT_EQ(Describe(ids).labels_size(), 0);
}

}  // namespace
}  // namespace comera::server
