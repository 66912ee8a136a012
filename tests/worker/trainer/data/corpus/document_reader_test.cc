// Tests how files are divided into documents.
#include "worker/trainer/data/corpus/document_reader.h"

#include <string>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

absl::StatusOr<Texts> ReadAll(
    const std::vector<std::string>& files, const std::string& separator,
    size_t limit = DocumentFormat::kMaxDocumentBytes) {
  DocumentFormat format;
  format.separator = separator;
  format.max_document_bytes = limit;
  DocumentReader reader(files, format);
  Texts documents;
  std::string document;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&document));
    if (!more) return documents;
    documents.push_back(document);
  }
}

class DocumentReaderTest : public ::testing::Test {
 protected:
  absl::StatusOr<Texts> Read(const std::string& contents,
                             const std::string& separator = "") {
    return ReadAll({folder_.Write("f", contents)}, separator);
  }
  TempFolder folder_;
};

TEST_F(DocumentReaderTest, AFileIsADocument) {
  EXPECT_THAT(*Read("a\n\nb"), ElementsAre("a\n\nb"));
  EXPECT_THAT(*Read("a\r\nb\r\n"), ElementsAre("a\r\nb\r\n"));
  EXPECT_THAT(*Read("\n"), ElementsAre("\n"));
  EXPECT_THAT(*Read(""), IsEmpty());
  EXPECT_THAT(*Read("\xEF\xBB\xBFtext \xEF\xBB\xBF"),
              ElementsAre("text \xEF\xBB\xBF"));
  EXPECT_THAT(*Read("\xEF\xBB\xBF"), IsEmpty());
}

TEST_F(DocumentReaderTest, SeparatorsBelongToNoDocument) {
  EXPECT_THAT(*Read("a\nb\n---\nc\n---\nd", "---"),
              ElementsAre("a\nb\n", "c\n", "d"));
  // Nothing between separators is no document.
  EXPECT_THAT(*Read("---\n---\na\n---\n---\n\n---\n", "---"),
              ElementsAre("a\n", "\n"));
  EXPECT_THAT(*Read("a\r\n---\r\nb\r\n---", "---"),
              ElementsAre("a\r\n", "b\r\n"));
  // Only the whole line separates.
  EXPECT_THAT(*Read("----\n ---\n--- \n--\n", "---"),
              ElementsAre("----\n ---\n--- \n--\n"));
  EXPECT_THAT(*Read("---\n", "---"), IsEmpty());
}

TEST_F(DocumentReaderTest, DocumentsEndWithTheirFiles) {
  const std::string a = folder_.Write("a", "1\n---\n2");
  const std::string b = folder_.Write("b.gz", Gzip("3\n---\n4\n"));
  const std::string empty = folder_.Write("c", "");
  EXPECT_THAT(*ReadAll({a, empty, b}, "---"),
              ElementsAre("1\n", "2", "3\n", "4\n"));
  EXPECT_THAT(*ReadAll({b, a}, ""), ElementsAre("3\n---\n4\n", "1\n---\n2"));
  EXPECT_THAT(*ReadAll({}, ""), IsEmpty());
}

TEST_F(DocumentReaderTest, BadContents) {
  EXPECT_THAT(Read("ok\n\xff\n"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("/f:2: not")));
  EXPECT_THAT(Read(std::string("ok\n---\na\0b", 10), "---"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("/f:3: a NUL")));
  EXPECT_THAT(ReadAll({folder_ / "none"}, ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_THAT(ReadAll({folder_.path()}, ""),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ReadAll({folder_.Write("f.gz", "plain")}, ""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a gzip")));
}

TEST_F(DocumentReaderTest, DocumentLimit) {
  const std::string path = folder_.Write("f", "ab\ncd\n---\nef\n");
  EXPECT_THAT(*ReadAll({path}, "---", 6), ElementsAre("ab\ncd\n", "ef\n"));
  EXPECT_THAT(ReadAll({path}, "---", 5),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("/f:2: the document is longer than 5")));
  EXPECT_THAT(ReadAll({path}, "", 1),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("/f:1: the line is longer than 1")));
}

}  // namespace
}  // namespace comera::trainer
