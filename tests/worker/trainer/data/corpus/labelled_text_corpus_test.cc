// Labelled texts: formats, classes, the split, and contents that are refused.
#include "worker/trainer/data/corpus/labelled_text_corpus.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Texts = std::vector<std::string>;

constexpr auto kTrain = Corpus::Part::kTrain;
constexpr auto kValidation = Corpus::Part::kValidation;
constexpr auto kTest = Corpus::Part::kTest;

// "text|label" of sentences, "first|second|label" of pairs.
absl::StatusOr<Texts> Read(const Corpus& corpus, Corpus::Part part) {
  Texts texts;
  RETURN_IF_ERROR(corpus.Read(part, [&texts](const CorpusText& text) {
    EXPECT_NE(text.is_pair, text.is_single);
    texts.push_back(absl::StrCat(
        text.first, "|", text.is_pair ? absl::StrCat(text.second, "|") : "",
        text.label));
    return absl::OkStatus();
  }));
  return texts;
}

class LabelledTextTest : public ::testing::Test {
 protected:
  LabelledTextTest() {
    spec_.set_text("text");
    spec_.set_label("label");
  }
  void Write(const std::string& name, const std::string& contents) {
    spec_.set_train(folder_.Write(name, contents));
  }
  absl::StatusOr<std::unique_ptr<LabelledTextCorpus>> Open(
      int32_t classes = 0) {
    if (spec_.validation().empty() && spec_.validation_fraction() == 0) {
      spec_.set_validation(spec_.train());
    }
    return LabelledTextCorpus::Open(spec_, classes);
  }
  absl::Status ReadError() {
    const auto corpus = Open();
    return corpus.ok() ? Read(**corpus, kTrain).status() : corpus.status();
  }

  TempFolder folder_;
  v1::LabelledText spec_;
};

TEST_F(LabelledTextTest, Csv) {
  Write(
      "t.csv",
      "id,label,text\r\n1,pos,\"good,\nreally\"\r\n2,neg,\"\"\"bad\"\"\"\r\n");
  ASSERT_OK_AND_ASSIGN(const auto corpus, Open());
  EXPECT_THAT(*Read(*corpus, kTrain),
              ElementsAre("good,\nreally|1", "\"bad\"|0"));
  EXPECT_EQ(corpus->classes(), 2);
  EXPECT_THAT(corpus->format().fields, ElementsAre("text"));
  EXPECT_FALSE(corpus->format().fields_joined);
  EXPECT_EQ(corpus->format().label_field, "label");
  EXPECT_THAT(corpus->format().labels, ElementsAre("neg", "pos"));
}

TEST_F(LabelledTextTest, TsvPairsPacked) {
  spec_.set_text("a");
  spec_.set_second_text("b");
  spec_.set_label("y");
  Write("t.tsv.gz", Gzip("a\tb\ty\np \"q\tr\t1\ns\tt\t0\n"));
  ASSERT_OK_AND_ASSIGN(const auto corpus, Open());
  EXPECT_THAT(*Read(*corpus, kTrain), ElementsAre("p \"q|r|1", "s|t|0"));
  EXPECT_THAT(corpus->format().fields, ElementsAre("a", "b"));
}

TEST_F(LabelledTextTest, JsonLinesWithLabelsOfAnyKind) {
  Write("t.jsonl",
        "{\"text\": \"a\", \"label\": 1, \"other\": [2]}\n\n"
        "{\"label\": true, \"text\": \"b\"}\n"
        "{\"label\": \"x\", \"text\": \"c\\nd\"}\n"
        "{\"label\": 2.5, \"text\": \"e\"}\n");
  ASSERT_OK_AND_ASSIGN(const auto corpus, Open());
  EXPECT_THAT(corpus->format().labels, ElementsAre("1", "2.5", "true", "x"));
  EXPECT_THAT(*Read(*corpus, kTrain),
              ElementsAre("a|0", "b|2", "c\nd|3", "e|1"));
}

TEST_F(LabelledTextTest, PartsAreFiles) {
  Write("t.csv", "text,label\na,x\nb,y\n");
  spec_.set_validation(
      folder_.Write("v.jsonl", "{\"text\": \"c\", \"label\": \"y\"}\n"));
  spec_.set_test(folder_.Write("e.tsv", "label\ttext\nx\td\n"));
  ASSERT_OK_AND_ASSIGN(const auto corpus, Open(2));
  EXPECT_TRUE(corpus->has_test());
  EXPECT_THAT(*Read(*corpus, kValidation), ElementsAre("c|1"));
  EXPECT_THAT(*Read(*corpus, kTest), ElementsAre("d|0"));
}

TEST_F(LabelledTextTest, HoldsOutAShareByTheTexts) {
  std::string rows = "text,label\n";
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&rows, "sentence ", i % 500, ",", i % 2, "\n");
  }
  Write("t.csv", rows);
  spec_.set_validation_fraction(0.2);
  ASSERT_OK_AND_ASSIGN(const auto corpus, Open());
  ASSERT_OK_AND_ASSIGN(const Texts train, Read(*corpus, kTrain));
  ASSERT_OK_AND_ASSIGN(const Texts validation, Read(*corpus, kValidation));
  EXPECT_EQ(train.size() + validation.size(), 1000u);
  EXPECT_NEAR(static_cast<double>(validation.size()), 200, 60);
  // No text is on both sides, not even where it occurs twice.
  const std::set<std::string> trained(train.begin(), train.end());
  for (const std::string& text : validation) EXPECT_EQ(trained.count(text), 0u);
  EXPECT_FALSE(corpus->has_test());
}

TEST_F(LabelledTextTest, LabelsInTheSpecsOrder) {
  Write("t.csv", "text,label\na,no\nb,yes\n");
  for (const char* label : {"yes", "no", "maybe"}) spec_.add_labels(label);
  ASSERT_OK_AND_ASSIGN(const auto corpus, Open(3));
  EXPECT_EQ(corpus->classes(), 3);
  EXPECT_THAT(*Read(*corpus, kTrain), ElementsAre("a|1", "b|0"));
  EXPECT_THAT(Open(2), StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("model.classes: 2")));
}

TEST_F(LabelledTextTest, ClassesMustBeThoseOfTheFile) {
  Write("t.csv", "text,label\na,no\nb,yes\n");
  EXPECT_THAT(Open(3), StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("t.csv has 2 labels")));
  Write("t.csv", "text,label\na,no\nb,no\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("1 labels in 'label'")));
}

// What stands in the file is nobody's business but its owner's.
TEST_F(LabelledTextTest, ErrorsNameThePlaceAndNotTheContents) {
  const auto bad = [](const std::string& place) {
    return StatusIs(absl::StatusCode::kDataLoss,
                    AllOf(HasSubstr(place), Not(HasSubstr("secret"))));
  };
  Write("t.csv", "text,label\na,x\nsecret,y,secret\n");
  EXPECT_THAT(ReadError(), bad("t.csv:3: 3 columns, but the header has 2"));
  Write("t.csv", "text,label\na,x\nsecret,\n");
  EXPECT_THAT(ReadError(), bad("t.csv:3: column 'label': empty"));
  Write("t.jsonl", "{\"text\": \"secret\", \"label\": \"\"}\n");
  EXPECT_THAT(ReadError(), bad("t.jsonl:1: field 'label': empty"));
  Write("t.jsonl", "{\"text\": [\"secret\"], \"label\": 1}\n");
  EXPECT_THAT(ReadError(), bad("t.jsonl:1: field 'text' is not a string"));
  Write("t.jsonl", "{\"text\": \"secret\"}\n");
  EXPECT_THAT(ReadError(), bad("t.jsonl:1: no field 'label'"));
  Write("t.jsonl", "{\"text\": 5, \"label\": 1}\n");
  EXPECT_THAT(ReadError(), bad("t.jsonl:1: field 'text' is not a string"));
  Write("t.csv", "");
  EXPECT_THAT(ReadError(), bad("t.csv:1: empty file"));
  Write("t.csv", "text,label\na,x\nb,secret\n");
  spec_.add_labels("x");
  spec_.add_labels("y");
  EXPECT_THAT(ReadError(), bad("t.csv:3: 'label' is none of the 2 labels"));
}

TEST_F(LabelledTextTest, ColumnsAndEndingsThatAreNotThere) {
  Write("t.csv", "text,class\na,x\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("data.labelled_text.label: ")));
  Write("t.csv", "text,label,text\na,x,b\n");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("has twice the column 'text'")));
  Write("t.txt", "text,label\na,x\n");
  spec_.set_validation(spec_.train());
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("t.txt ends with none of")));
  spec_.set_train("/nowhere/t.csv");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(LabelledTextTest, TooManyLabels) {
  std::string rows = "text,label\n";
  for (int i = 0; i < 1001; ++i) absl::StrAppend(&rows, "a,", i, "\n");
  Write("t.csv", rows);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("t.csv:1002: 'label' has more")));
}

TEST_F(LabelledTextTest, FingerprintsFollowTheSpec) {
  Write("t.csv", "text,label\na,x\nb,y\n");
  ASSERT_OK_AND_ASSIGN(const auto corpus, Open());
  spec_.set_test(folder_.Write("e.csv", "text,label\na,x\n"));
  ASSERT_OK_AND_ASSIGN(const auto with_test, Open());
  EXPECT_NE(corpus->fingerprint(), with_test->fingerprint());
}

}  // namespace
}  // namespace comera::trainer
