// Tests reading lines of any length and compression.
#include "worker/trainer/data/source/line_reader.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
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
using Lines = std::vector<std::string>;

absl::StatusOr<Lines> ReadAll(const std::string& path,
                              size_t limit = LineReader::kMaxLineBytes) {
  ASSIGN_OR_RETURN(auto reader, LineReader::Open(path, limit));
  Lines lines;
  absl::string_view line;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) return lines;
    lines.emplace_back(line);
    if (reader->line_number() != static_cast<int64_t>(lines.size())) {
      return absl::InternalError("line number");
    }
  }
}

class LineReaderTest : public ::testing::Test {
 protected:
  absl::StatusOr<Lines> Read(const std::string& contents) {
    return ReadAll(folder_.Write("f", contents));
  }
  TempFolder folder_;
};

TEST_F(LineReaderTest, Lines) {
  EXPECT_EQ(*Read(""), Lines());
  EXPECT_EQ(*Read("\n"), Lines({""}));
  EXPECT_EQ(*Read("a"), Lines({"a"}));
  EXPECT_EQ(*Read("a\nb\n"), Lines({"a", "b"}));
  EXPECT_EQ(*Read("a\r\n\r\nb"), Lines({"a", "", "b"}));
  const std::string megabyte(1 << 20, 'x');
  EXPECT_EQ(*Read(megabyte + "\ny"), Lines({megabyte, "y"}));
}

TEST_F(LineReaderTest, LinesAndTheirEndsAreTheFile) {
  for (const std::string text :
       {"", "\n", "a", "a\nb\n", "a\r\n\r\nb", "a\rb\r\r\nc\r", "\r"}) {
    ASSERT_OK_AND_ASSIGN(const auto reader,
                         LineReader::Open(folder_.Write("f", text)));
    std::string joined;
    absl::string_view line;
    while (true) {
      ASSERT_OK_AND_ASSIGN(const bool more, reader->Next(&line));
      if (!more) break;
      joined.append(line.data(), line.size());
      joined.append(reader->line_end().data(), reader->line_end().size());
    }
    EXPECT_EQ(joined, text);
  }
}

TEST_F(LineReaderTest, Gzip) {
  const std::string text = "first\nsecond\n" + std::string(200000, 'z') + "\n";
  const std::string packed = Gzip(text);
  EXPECT_EQ(*ReadAll(folder_.Write("f.gz", packed)), *Read(text));
  // The first bytes tell, not the name.
  EXPECT_EQ(*Read(packed), *Read(text));
  EXPECT_EQ(*Read(packed + Gzip("more\n")), *Read(text + "more\n"));
  EXPECT_EQ(*Read(Gzip("")), Lines());
}

TEST_F(LineReaderTest, DamagedGzip) {
  const std::string packed = Gzip("first\nsecond\n" + std::string(50, 'x'));
  EXPECT_THAT(ReadAll(folder_.Write("f.gz", "plain text\n")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a gzip")));
  for (size_t size = 2; size < packed.size(); ++size) {
    EXPECT_THAT(Read(packed.substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("truncated"), HasSubstr("/f:"))))
        << size;
  }
  std::string flipped = packed;
  flipped[flipped.size() - 6] ^= 1;  // checksum
  EXPECT_THAT(Read(flipped),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("gzip")));
  EXPECT_THAT(Read(packed + "junk"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(LineReaderTest, Binary) {
  EXPECT_THAT(Read(std::string("ok\na\0b\n", 7)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("/f:2: a NUL")));
  EXPECT_THAT(
      Read("ok\nok\n\xc3\x28\n"),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("/f:3: not UTF-8")));
}

TEST_F(LineReaderTest, LineLimit) {
  const std::string path = folder_.Write("f", "ok\n12345\n123456\n");
  EXPECT_OK(ReadAll(path, 6));
  EXPECT_THAT(ReadAll(path, 5),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("f:3: the line is longer than 5 bytes")));
}

int64_t PeakKiB() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_F(LineReaderTest, GigabyteLineIsNotLoaded) {
  const std::string path = folder_.Write("f", "header\n");
  std::filesystem::resize_file(path, int64_t{1} << 30);  // sparse
  const int64_t before = PeakKiB();
  EXPECT_THAT(ReadAll(path), StatusIs(absl::StatusCode::kDataLoss,
                                      HasSubstr("/f:2: the line is longer")));
  EXPECT_LT(PeakKiB() - before, 100 << 10);
}

TEST_F(LineReaderTest, GzipBombIsNotLoaded) {
  const std::string path =
      folder_.Write("f.gz", Gzip(std::string(64 << 20, 'a')));
  EXPECT_THAT(ReadAll(path),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("/f.gz:1: the line is longer")));
}

TEST_F(LineReaderTest, NoFile) {
  EXPECT_THAT(ReadAll(folder_ / "none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ReadAll(folder_.path()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not a regular file")));
  EXPECT_THAT(ReadAll("/dev/zero"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
