// Tests the formats that documents are read from: rows of JSON and CSV,
// compression, and which malformed rows can be passed over.
#include "worker/trainer/data/corpus/document_file.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/corpus/bad_rows.h"
#include "worker/trainer/data/corpus/document_reader.h"
#include "zstd.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `text` as one frame.
std::string Zstd(const std::string& text, int window_log = 0) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  }
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  ZSTD_outBuffer out = {packed.data(), packed.size(), 0};
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  // In two calls, so that the size is not known from the beginning.
  EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush), 0u);
  EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0u);
  packed.resize(out.pos);
  ZSTD_freeCCtx(context);
  return packed;
}

class DocumentFileTest : public ::testing::Test {
 protected:
  // All documents that are not empty; each error is one, as "!message".
  std::vector<std::string> Read(const std::string& name,
                                const std::string& contents) {
    const auto file =
        DocumentFile::Open(folder_.Write(name, contents), format_);
    if (!file.ok()) return {absl::StrCat("!", file.status().message())};
    std::vector<std::string> documents;
    std::string document;
    while (true) {
      const auto more = (*file)->Next(&document);
      if (more.ok() && !*more) return documents;
      if (more.ok() && document.empty()) continue;
      documents.push_back(
          more.ok() ? document : absl::StrCat("!", more.status().message()));
      const size_t slash = documents.back().rfind('/');
      if (!more.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(more.status()));
        documents.back() = "!" + documents.back().substr(slash + 1);
        if (!(*file)->can_go_on()) {
          documents.push_back("end");
          return documents;
        }
      }
    }
  }

  TempFolder folder_;
  DocumentFormat format_;
};

TEST_F(DocumentFileTest, TheNameTellsTheKind) {
  using Kind = DocumentFile::Kind;
  EXPECT_EQ(DocumentFile::KindOf("/a/b.jsonl"), Kind::kJsonLines);
  EXPECT_EQ(DocumentFile::KindOf("/a/b.jsonl.zst"), Kind::kJsonLines);
  EXPECT_EQ(DocumentFile::KindOf("b.csv.gz"), Kind::kCsv);
  for (const char* name : {"a.txt", "jsonl", "csv", "b.csv.bak", "a.json"}) {
    EXPECT_EQ(DocumentFile::KindOf(name), Kind::kPlain) << name;
  }
}

TEST_F(DocumentFileTest, JsonLines) {
  format_.field = "body";
  EXPECT_THAT(Read("a.jsonl",
                   "\xEF\xBB\xBF{\"body\": \"a\\nb\", \"x\": [1]}\r\n\n"
                   "{\"body\":\"\"}\n{\"body\":\"\\u20ac\"}"),
              ElementsAre("a\nb", "\u20ac"));
}

TEST_F(DocumentFileTest, MalformedRowsOfJson) {
  EXPECT_THAT(
      Read("a.jsonl", std::string("{\"text\": \"1\"}\nno\n{\"text\": 3}\n{}\n"
                                  "[\"text\"]\n{\"text\": \"\xff\"}\n\0\n"
                                  "{\"text\": \"\\u0000\"}\n"
                                  "{\"text\": \"a\"} b\n{\"text\": \"2\"}\n",
                                  106)),
      ElementsAre("1", "!a.jsonl:2: malformed JSON",
                  "!a.jsonl:3: field 'text' is not a string",
                  "!a.jsonl:4: no field 'text'", "!a.jsonl:5: not an object",
                  "!a.jsonl:6: not UTF-8",
                  "!a.jsonl:7: a NUL byte: this is no text file",
                  "!a.jsonl:8: field 'text': holds a NUL character",
                  "!a.jsonl:9: malformed JSON", "2"));
}

TEST_F(DocumentFileTest, RowsThatAreTooLong) {
  format_.max_document_bytes = 20;
  const std::string longer(200000, 'x');
  EXPECT_THAT(Read("a.jsonl", absl::StrCat("{\"text\":\"1\"}\n", longer,
                                           "\n{\"text\":\"2\"}\n", longer)),
              ElementsAre("1", "!a.jsonl:2: the line is longer than 20 bytes",
                          "2", "!a.jsonl:4: the line is longer than 20 bytes"));
}

TEST_F(DocumentFileTest, Csv) {
  EXPECT_THAT(Read("a.csv",
                   "id,text\r\n1,plain\r\n2,\"a, \"\"b\"\"\r\nc\"\r\n\r\n3,\n"),
              ElementsAre("plain", "a, \"b\"\nc"));
  EXPECT_THAT(Read("a.csv", "id,text\n1,a,b\n2,\"x\"y\n3,z\n4,\"open\n"),
              ElementsAre("!a.csv:2: 3 columns, but the header has 2",
                          "!a.csv:3: column 2: something follows its closing "
                          "quote",
                          "z", "!a.csv:5: column 2: its quote is never closed",
                          // Where the next record begins is not known.
                          "end"));
  EXPECT_THAT(Read("a.csv", "id,words\n1,a\n"),
              ElementsAre(HasSubstr("no column 'text'")));
  EXPECT_THAT(Read("a.csv", "text,text\n1,a\n"),
              ElementsAre(HasSubstr("twice the column 'text'")));
  EXPECT_THAT(Read("a.csv", ""), ElementsAre(HasSubstr("a header line")));
}

TEST_F(DocumentFileTest, MalformedPlainDocuments) {
  format_.separator = "--";
  format_.max_document_bytes = 8;
  EXPECT_THAT(Read("a",
                   "one\n--\ntw\xff\nb\xff\n--\nthree\n--\nlong\nlong\n"
                   "long\n--\nfour\n--\n\xff"),
              ElementsAre("one\n", "!a:3: not UTF-8", "three\n",
                          HasSubstr("longer than 8 bytes"), "four\n",
                          "!a:14: not UTF-8"));
}

TEST_F(DocumentFileTest, Zstandard) {
  std::string text;
  for (int64_t i = 0; i < 50000; ++i) absl::StrAppend(&text, i * i, " \n");
  EXPECT_THAT(Read("a.zst", Zstd(text)), ElementsAre(text));
  EXPECT_THAT(Read("a.zst", Zstd("one ") + Zstd("") + Zstd("two")),
              ElementsAre("one two"));
  // A frame that readers pass over, of four bytes.
  EXPECT_THAT(
      Read("a", std::string("\x53\x2a\x4d\x18\x04\0\0\0abcd", 12) + Zstd("x")),
      ElementsAre("x"));
  EXPECT_THAT(Read("b.jsonl.zst", Zstd("{\"text\": \"row\"}\n")),
              ElementsAre("row"));
}

TEST_F(DocumentFileTest, DamagedZstandard) {
  const std::string packed = Zstd(std::string(1000, 'a') + "b");
  for (size_t size = 4; size < packed.size(); ++size) {
    EXPECT_THAT(Read("a.zst", packed.substr(0, size)),
                ElementsAre(HasSubstr("zstd: the file is truncated"), "end"))
        << size;
  }
  std::string changed = packed;
  changed.back() ^= 1;
  EXPECT_THAT(Read("a.zst", changed), ElementsAre(HasSubstr("zstd: "), "end"));
  EXPECT_THAT(Read("a.zst", packed + "rest"),
              ElementsAre(HasSubstr("zstd: "), "end"));
  EXPECT_THAT(Read("a.zst", "plain text"),
              ElementsAre(HasSubstr("not a Zstandard file")));
  // A window that the reader would have to hold in memory.
  EXPECT_THAT(Read("a.zst", Zstd("x", 30)),
              ElementsAre(HasSubstr("zstd: "), "end"));
}

TEST_F(DocumentFileTest, ForeignFormats) {
  EXPECT_THAT(Read("a", std::string("PAR1\x15\x04\x15", 7)),
              ElementsAre(HasSubstr("a Parquet file, which is not read; "
                                    "convert it to .jsonl first, e.g. with "
                                    "pyarrow")));
  EXPECT_THAT(Read("a", "PAR1 is a text"), ElementsAre("PAR1 is a text"));
  EXPECT_THAT(Read("a", "PAR1"), ElementsAre("PAR1"));
  for (const char* first : {"\xfd"
                            "7zXZ",
                            "BZh91AY&SY", "PK\x03\x04", "Obj\x01"}) {
    EXPECT_THAT(Read("a", absl::StrCat(first, "...")),
                ElementsAre(HasSubstr("not read")));
  }
}

TEST(BadRowsTest, CountsPlacesOnce) {
  BadRows rows(2);
  const absl::Status first = absl::DataLossError("a:1: bad");
  EXPECT_EQ(rows.Summary(), "");
  EXPECT_OK(rows.Add(first));
  EXPECT_OK(rows.Add(first));
  EXPECT_EQ(rows.Summary(), "1 malformed row skipped, the first: a:1: bad");
  EXPECT_OK(rows.Add(absl::DataLossError("a:2: bad")));
  EXPECT_EQ(rows.count(), 2);
  EXPECT_THAT(rows.Add(absl::DataLossError("a:3: bad")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a:3: bad; ")));
  BadRows none(0);
  EXPECT_EQ(none.Add(first), first);
}

TEST_F(DocumentFileTest, TheReaderPassesOverBadRows) {
  const std::vector<std::string> files = {
      folder_.Write("a.jsonl", "{\"text\": \"1\"}\n{\n{\"text\": \"2\"}\n"),
      folder_.Write("b.txt", "\xff"), folder_.Write("c.txt", "3")};
  BadRows rows(2);
  DocumentReader reader(files, format_, &rows);
  std::vector<std::string> documents;
  std::string document;
  while (*reader.Next(&document)) documents.push_back(document);
  EXPECT_THAT(documents, ElementsAre("1", "2", "3"));
  EXPECT_EQ(rows.count(), 2);
}

}  // namespace
}  // namespace comera::trainer
