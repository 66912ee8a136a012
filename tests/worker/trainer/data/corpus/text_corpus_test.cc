// Plain text: which files are read, what is held out, and what is refused.
#include "worker/trainer/data/corpus/text_corpus.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

constexpr auto kTrain = Corpus::Part::kTrain;
constexpr auto kValidation = Corpus::Part::kValidation;
constexpr auto kTest = Corpus::Part::kTest;

class TextCorpusTest : public ::testing::Test {
 protected:
  absl::StatusOr<Texts> Read(Corpus::Part part) {
    ASSIGN_OR_RETURN(const auto corpus, TextCorpus::Open(spec_, {}));
    Texts texts;
    RETURN_IF_ERROR(corpus->Read(part, [&texts](const CorpusText& text) {
      EXPECT_FALSE(text.is_pair || text.is_single);
      texts.push_back(std::string(text.first));
      return absl::OkStatus();
    }));
    return texts;
  }
  // A training file of the documents "0\n", "1\n", ...
  void WriteDocuments(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) absl::StrAppend(&text, i, "\n---\n");
    spec_.add_train(folder_.Write("train.txt", text));
    spec_.set_document_separator("---");
  }
  // Both parts of a training file that is one document.
  Texts Split(const std::string& text, double fraction) {
    spec_.Clear();
    spec_.add_train(folder_.Write("one.txt", text));
    spec_.set_validation_fraction(fraction);
    return {absl::StrJoin(*Read(kTrain), "+"),
            absl::StrJoin(*Read(kValidation), "+")};
  }

  TempFolder folder_;
  v1::Text spec_;
};

TEST_F(TextCorpusTest, FilesAndPatterns) {
  for (const char* name : {"b/2.txt", "b/1.txt", "a.txt", "v1.txt", "v2.txt"}) {
    folder_.Write(name, absl::StrCat(name, "\n"));
  }
  folder_.Write("t.txt.gz", Gzip("packed\n"));
  spec_.add_train(folder_ / "b/*.txt");
  spec_.add_train(folder_ / "a.txt");
  spec_.add_train(folder_ / "b/1.txt");  // a second time
  spec_.add_validation(folder_ / "v?.txt");
  EXPECT_THAT(*Read(kTrain), ElementsAre("b/1.txt\n", "b/2.txt\n", "a.txt\n"));
  EXPECT_THAT(*Read(kValidation), ElementsAre("v1.txt\n", "v2.txt\n"));
  EXPECT_FALSE((*TextCorpus::Open(spec_, {}))->has_test());
  spec_.add_test(folder_ / "*.gz");
  EXPECT_TRUE((*TextCorpus::Open(spec_, {}))->has_test());
  EXPECT_THAT(*Read(kTest), ElementsAre("packed\n"));
}

TEST_F(TextCorpusTest, TheLastDocumentsAreHeldOut) {
  WriteDocuments(10);
  EXPECT_THAT(*Read(kTrain), ElementsAre("0\n", "1\n", "2\n", "3\n", "4\n",
                                         "5\n", "6\n", "7\n", "8\n"));
  EXPECT_THAT(*Read(kValidation), ElementsAre("9\n"));
  spec_.set_validation_fraction(0.34);
  EXPECT_EQ(Read(kTrain)->size(), 7u);
  EXPECT_THAT(*Read(kValidation), ElementsAre("7\n", "8\n", "9\n"));
  // Files are documents too.
  spec_.Clear();
  for (const char* name : {"x", "y", "z"}) {
    spec_.add_train(folder_.Write(name, name));
  }
  EXPECT_THAT(*Read(kTrain), ElementsAre("x", "y"));
  EXPECT_THAT(*Read(kValidation), ElementsAre("z"));
}

TEST_F(TextCorpusTest, EachPartGetsADocument) {
  WriteDocuments(2);
  for (const double fraction : {1e-9, 0.5, 1 - 1e-9}) {
    spec_.set_validation_fraction(fraction);
    EXPECT_THAT(*Read(kTrain), ElementsAre("0\n"));
    EXPECT_THAT(*Read(kValidation), ElementsAre("1\n"));
  }
}

TEST_F(TextCorpusTest, ASingleDocumentIsCutAtALine) {
  // The cut falls on 10 of 20 bytes, and a line begins at most 5 before it.
  EXPECT_THAT(Split("12345\n789012345\n7890", 0.5),
              ElementsAre("12345\n", "789012345\n7890"));
  EXPECT_THAT(Split("1234\n6789012345\n7890", 0.5),
              ElementsAre("1234\n", "6789012345\n7890"));
  EXPECT_THAT(Split("123\n56789012345\n7890", 0.5),
              ElementsAre("123\n567890", "12345\n7890"));
  EXPECT_THAT(Split("123456789\n1234567890", 0.5),
              ElementsAre("123456789\n", "1234567890"));
  EXPECT_THAT(Split(std::string(100, 'x'), 0.1),
              ElementsAre(std::string(90, 'x'), std::string(10, 'x')));
  // However long the text is, lines that are far away are not waited for.
  const std::string long_line(20000, 'y');
  EXPECT_EQ(Split("\n" + long_line, 0.5)[1], std::string(10001, 'y'));
}

TEST_F(TextCorpusTest, CharactersAreNotCut) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "\xE2\x82\xAC";  // three bytes each
  for (const double fraction : {0.3, 0.32, 0.34, 0.36}) {
    const Texts parts = Split(text, fraction);
    EXPECT_EQ(parts[0] + parts[1], text);
    EXPECT_EQ(parts[0].size() % 3, 0u) << fraction;
    EXPECT_GE(parts[1].size(), fraction * 30);
    EXPECT_LT(parts[1].size(), fraction * 30 + 4);
  }
}

TEST_F(TextCorpusTest, TooLittleText) {
  EXPECT_THAT(Split("x", 0.1), ElementsAre("", "x"));
  EXPECT_THAT(Split("", 0.1), ElementsAre("", ""));
  WriteDocuments(0);
  EXPECT_THAT(*Read(kTrain), IsEmpty());
}

TEST_F(TextCorpusTest, FingerprintFollowsFilesAndSpec) {
  std::set<std::string> distinct;
  const auto add = [&] {
    const auto corpus = TextCorpus::Open(spec_, {});
    ASSERT_OK(corpus);
    EXPECT_TRUE(distinct.insert((*corpus)->fingerprint()).second);
  };
  spec_.add_train(folder_.Write("a", "text"));
  add();
  folder_.Write("a", "longer text");
  add();
  spec_.set_validation_fraction(0.2);
  add();
  spec_.set_document_separator("---");
  add();
  spec_.add_validation(folder_.Write("b", "text"));
  add();
  spec_.add_test(folder_.Write("c", "text"));
  add();
  spec_.clear_test();
  spec_.add_train(folder_ / "c");
  add();
}

TEST_F(TextCorpusTest, BadSpecs) {
  const std::string file = folder_.Write("a.txt", "text");
  spec_.add_train(file);
  const v1::Text good = spec_;
  const auto expect = [&](absl::StatusCode code, const char* message) {
    EXPECT_THAT(TextCorpus::Open(spec_, {}),
                StatusIs(code, HasSubstr(message)));
    spec_ = good;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kMissing = absl::StatusCode::kNotFound;
  spec_.clear_train();
  expect(kInvalid, "data.text.train: missing");
  for (const double fraction : {-0.1, 1.0, std::nan("")}) {
    spec_.set_validation_fraction(fraction);
    expect(kInvalid, "data.text.validation_fraction");
  }
  spec_.set_document_separator("a\nb");
  expect(kInvalid, "data.text.document_separator");
  spec_.add_train(folder_ / "none");
  expect(kMissing, "data.text.train: ");
  spec_.add_train(folder_ / "*.none");
  expect(kMissing, "data.text.train: no file matches");
  spec_.add_validation(folder_ / "n*");
  expect(kMissing, "data.text.validation: no file matches");
  spec_.add_test(folder_ / "n*");
  expect(kMissing, "data.text.test: no file matches");
  spec_.add_train(std::string(300, '*'));
  expect(kInvalid, "data.text.train: ");
  spec_.add_validation(folder_ / "*.txt");
  expect(kInvalid, "is also one of data.text.train");
  spec_.add_validation(folder_.Write("b.txt", "text"));
  spec_.add_test(folder_ / "b*");
  expect(kInvalid, "is also one of data.text.validation");
}

TEST_F(TextCorpusTest, BadContentsAreNamed) {
  spec_.add_train(folder_.Write("a.txt", "ok\nok\n\xff\n"));
  EXPECT_THAT(Read(kTrain), StatusIs(absl::StatusCode::kDataLoss,
                                     HasSubstr("a.txt:3: not UTF-8")));
  spec_.set_train(0, folder_.path());
  EXPECT_THAT(Read(kTrain), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr("not a regular file"),
                                           HasSubstr(folder_.path()))));
}

}  // namespace
}  // namespace comera::trainer
