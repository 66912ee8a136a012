// The three corpora: what they read, and every kind of contents they refuse.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/corpus/code_directory_corpus.h"
#include "worker/trainer/data/corpus/glue_tsv_corpus.h"
#include "worker/trainer/data/corpus/jsonl_corpus.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

constexpr auto kTrain = Corpus::Part::kTrain;
constexpr auto kValidation = Corpus::Part::kValidation;

// "first|second|label" of pairs, the text of documents.
absl::StatusOr<Texts> Read(const Corpus& corpus, Corpus::Part part) {
  Texts texts;
  RETURN_IF_ERROR(corpus.Read(part, [&texts](const CorpusText& text) {
    texts.push_back(text.is_pair ? absl::StrCat(text.first, "|", text.second,
                                                "|", text.label)
                                 : std::string(text.first));
    return absl::OkStatus();
  }));
  return texts;
}

class GlueTsvTest : public ::testing::Test {
 protected:
  // A pair file of columns a, b, label.
  absl::StatusOr<std::unique_ptr<GlueTsvCorpus>> Open(
      const std::string& train, const std::string& validation,
      const std::vector<std::string>& labels = {}, int32_t classes = 0) {
    v1::GlueTsv spec;
    spec.set_train(folder_.Write("train.tsv", train));
    spec.set_validation(folder_.Write("dev.tsv", validation));
    spec.set_sentence1_column(0);
    spec.set_sentence2_column(1);
    for (const std::string& label : labels) spec.add_labels(label);
    return GlueTsvCorpus::Open(spec, classes);
  }
  absl::Status TrainError(const std::string& train) {
    const auto corpus = Open(train, "a\tb\tlabel\n", {"x", "y"});
    return corpus.ok() ? Read(**corpus, kTrain).status() : corpus.status();
  }
  TempFolder folder_;
};

TEST_F(GlueTsvTest, RowsAndSortedLabels) {
  ASSERT_OK_AND_ASSIGN(
      const auto corpus,
      Open("a\tb\tlabel\np q\t\"r\ty\n1\t2\tx\n", "a\tb\tlabel\ns\tt\tx\n"));
  EXPECT_EQ(corpus->classes(), 2);
  EXPECT_THAT(*Read(*corpus, kTrain), ElementsAre("p q|\"r|1", "1|2|0"));
  EXPECT_THAT(*Read(*corpus, kValidation), ElementsAre("s|t|0"));
}

TEST_F(GlueTsvTest, LabelsInTheSpecsOrder) {
  ASSERT_OK_AND_ASSIGN(const auto corpus,
                       Open("a\tb\tl\np\tq\ty\r\n", Gzip("a\tb\tl\ns\tt\tx\n"),
                            {"y", "x", "z"}));
  EXPECT_EQ(corpus->classes(), 3);
  EXPECT_THAT(*Read(*corpus, kTrain), ElementsAre("p|q|0"));
  EXPECT_THAT(*Read(*corpus, kValidation), ElementsAre("s|t|1"));
}

// SST-2: a sentence and a label.
TEST_F(GlueTsvTest, SingleSentencesAndATestFile) {
  v1::GlueTsv spec;
  spec.set_train(folder_.Write("train.tsv", "sentence\tlabel\na b\t1\nc\t0\n"));
  spec.set_validation(folder_.Write("dev.tsv", "sentence\tlabel\nd\t1\n"));
  spec.set_test(folder_.Write("test.tsv", "sentence\tlabel\ne\t0\n"));
  spec.set_sentence1_column(0);
  spec.set_sentence2_column(-1);
  ASSERT_OK_AND_ASSIGN(const auto corpus, GlueTsvCorpus::Open(spec, 2));
  EXPECT_THAT(*Read(*corpus, kTrain), ElementsAre("a b", "c"));
  EXPECT_TRUE(corpus->has_test());
  ASSERT_OK(corpus->Read(Corpus::Part::kTest, [](const CorpusText& text) {
    EXPECT_TRUE(text.is_single);
    EXPECT_EQ(text.first, "e");
    EXPECT_EQ(text.label, 0);
    return absl::OkStatus();
  }));
  EXPECT_THAT(corpus->format().fields, ElementsAre("sentence"));
}

TEST_F(GlueTsvTest, BadContents) {
  struct Row {
    std::string contents;
    std::string message;
  };
  const std::string header = "a\tb\tlabel\n";
  for (const Row& row : std::vector<Row>{
           {header + "p\tq\tx\np\tx\n",
            "train.tsv:3: 2 columns, but the header"},
           {header + "p\tq\tr\tx\n", "train.tsv:2: 4 columns"},
           {header + "\n", "train.tsv:2: 1 columns"},
           {header + "p\tq\tw\n", "train.tsv:2: column 3: expected one of"},
           {header + "p\tq\t\n", "train.tsv:2: column 3: expected one of"},
           {header + "p\tq\t\x01\n", "train.tsv:2: column 3: expected one of"},
           {header + "p\t\xff\tx\n", "train.tsv:2: not UTF-8"},
           {std::string("\x7f"
                        "ELF\0\0\x01",
                        7),
            "train.tsv:1: a NUL byte"},
           {"", "train.tsv:1: empty file"}}) {
    EXPECT_THAT(TrainError(row.contents),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(row.message)));
  }
}

TEST_F(GlueTsvTest, ColumnsOutsideTheFile) {
  v1::GlueTsv spec;  // MNLI's columns 8 and 9
  spec.set_train(folder_.Write("t", "a\tb\tl\n1\t2\tx\n"));
  spec.set_validation(spec.train());
  EXPECT_THAT(GlueTsvCorpus::Open(spec, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.glue_tsv.sentence1_column: 8")));
  spec.set_sentence1_column(0);
  spec.set_sentence2_column(1);
  spec.set_label_column(-4);
  EXPECT_THAT(GlueTsvCorpus::Open(spec, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.glue_tsv.label_column: -4")));
  spec.set_label_column(-3);
  EXPECT_OK(GlueTsvCorpus::Open(spec, 3));
}

TEST_F(GlueTsvTest, TooManyLabels) {
  const std::string rows = "a\tb\tl\n1\t2\tx\n1\t2\ty\n1\t2\tz\n";
  EXPECT_THAT(Open(rows, rows, {}, 2),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("train.tsv:4")));
  EXPECT_THAT(Open(rows, rows, {"x", "y", "z"}, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.glue_tsv.labels")));
  EXPECT_THAT(
      Open(rows, rows, {"x", "x"}, 2),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("occurs twice")));
}

TEST_F(GlueTsvTest, MissingFiles) {
  v1::GlueTsv spec;
  EXPECT_THAT(GlueTsvCorpus::Open(spec, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  spec.set_train(folder_ / "none");
  EXPECT_THAT(GlueTsvCorpus::Open(spec, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  spec.set_validation(folder_ / "none");
  EXPECT_THAT(GlueTsvCorpus::Open(spec, 0),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(GlueTsvTest, FingerprintFollowsFileAndSpec) {
  const std::string rows = "a\tb\tl\n1\t2\tx\n";
  std::set<std::string> distinct;
  distinct.insert((*Open(rows, rows))->fingerprint());
  distinct.insert((*Open(rows, rows + "1\t2\tx\n"))->fingerprint());
  distinct.insert((*Open(rows, rows, {"x", "y"}))->fingerprint());
  EXPECT_EQ(distinct.size(), 3u);
}

class JsonlTest : public ::testing::Test {
 protected:
  absl::StatusOr<Texts> ReadTrain(const std::string& contents,
                                  const std::vector<std::string>& fields = {}) {
    v1::Jsonl spec;
    spec.set_train(folder_.Write("t.jsonl", contents));
    spec.set_validation(spec.train());
    for (const std::string& field : fields) spec.add_fields(field);
    ASSIGN_OR_RETURN(const auto corpus, JsonlCorpus::Open(spec));
    return Read(*corpus, kTrain);
  }
  TempFolder folder_;
};

TEST_F(JsonlTest, FieldsJoined) {
  const std::string rows =
      "{\"code\": \"f()\", \"n\": {\"code\": 7, \"x\": [1, {}, null]}, "
      "\"docstring\": \"d\\n\\u00e9\"}\n\n"
      "{\"docstring\": \"\", \"code\": \"g\", \"other\": true}\n";
  EXPECT_THAT(*ReadTrain(rows), ElementsAre("d\né\nf()", "\ng"));
  EXPECT_THAT(*ReadTrain(Gzip(rows), {"code"}), ElementsAre("f()", "g"));
}

TEST_F(JsonlTest, BadContents) {
  struct Row {
    std::string line;
    std::string message;
  };
  for (const Row& row : std::vector<Row>{
           {"{\"code\": \"x\"}", "no field 'docstring'"},
           {"{\"docstring\": \"x\", \"code\": 7}", "'code' is not a string"},
           {"{\"docstring\": \"x\", \"code\": null}", "'code' is not a string"},
           {"{\"docstring\": \"x\", \"code\": [\"y\"]}", "is not a string"},
           {"{\"docstring\": {\"docstring\": \"y\"}}", "is not a string"},
           {"{\"code\": \"x\", \"code\": \"y\"}", "'code' occurs twice"},
           {"{\"code\": \"x\", ", "malformed JSON"},
           {"{\"code\": \"x\"} {}", "malformed JSON"},
           {"[\"code\"]", "not an object"},
           {"\"code\"", "not an object"},
           {"12", "not an object"},
           {"{\"a\":" + std::string(100000, '['), "nested too deeply"},
           {"{\"code\": \"\\ud800\"}", "malformed JSON"},
           {"{\"code\": \"\xff\"}", "not UTF-8"}}) {
    const std::string good = "{\"docstring\": \"d\", \"code\": \"c\"}\n";
    EXPECT_THAT(
        ReadTrain(good + row.line + "\n"),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("t.jsonl:2: ")));
    EXPECT_THAT(ReadTrain(good + row.line + "\n"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(row.message)));
  }
}

TEST_F(JsonlTest, BadSpec) {
  EXPECT_THAT(ReadTrain("{}", {"code", "code"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.jsonl.fields")));
  EXPECT_THAT(JsonlCorpus::Open(v1::Jsonl()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.jsonl.train")));
}

class CodeDirectoryTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Names(const CodeDirectoryCorpus& corpus,
                                        Corpus::Part part) {
    std::vector<std::string> names;
    for (const FoundFile& file : corpus.files(part)) {
      names.push_back(file.relative_path);
    }
    return names;
  }
  // 200 files f0 ... f199 of ten bytes.
  void WriteMany(const TempFolder& folder) {
    for (int i = 0; i < 200; ++i) {
      folder.Write(absl::StrCat("d", i % 7, "/f", i),
                   absl::StrCat("text ", 10000 + i));
    }
  }
  v1::CodeDirectory Spec(const TempFolder& folder, double fraction = 0.2) {
    v1::CodeDirectory spec;
    spec.add_roots(folder.path());
    spec.set_validation_fraction(fraction);
    return spec;
  }
  TempFolder folder_;
};

TEST_F(CodeDirectoryTest, SplitIsAFunctionOfThePath) {
  WriteMany(folder_);
  TempFolder copy;
  WriteMany(copy);
  ASSERT_OK_AND_ASSIGN(const auto a,
                       CodeDirectoryCorpus::Open(Spec(folder_), 1, {}));
  ASSERT_OK_AND_ASSIGN(const auto b,
                       CodeDirectoryCorpus::Open(Spec(copy), 1, {}));
  EXPECT_EQ(Names(*a, kTrain), Names(*b, kTrain));
  EXPECT_EQ(Names(*a, kValidation), Names(*b, kValidation));
  EXPECT_NEAR(Names(*a, kValidation).size(), 40, 20);
  EXPECT_EQ(Names(*a, kTrain).size() + Names(*a, kValidation).size(), 200u);
  // Another seed: another order, the same split.
  ASSERT_OK_AND_ASSIGN(const auto c,
                       CodeDirectoryCorpus::Open(Spec(folder_), 2, {}));
  EXPECT_NE(Names(*a, kTrain), Names(*c, kTrain));
  const auto set = [](std::vector<std::string> names) {
    return std::set<std::string>(names.begin(), names.end());
  };
  EXPECT_EQ(set(Names(*a, kTrain)), set(Names(*c, kTrain)));
}

TEST_F(CodeDirectoryTest, ATestPartIsTakenFromTheTrainingFiles) {
  WriteMany(folder_);
  ASSERT_OK_AND_ASSIGN(const auto without,
                       CodeDirectoryCorpus::Open(Spec(folder_), 1, {}));
  EXPECT_FALSE(without->has_test());
  v1::CodeDirectory spec = Spec(folder_);
  spec.set_test_fraction(0.3);
  ASSERT_OK_AND_ASSIGN(const auto with, CodeDirectoryCorpus::Open(spec, 1, {}));
  EXPECT_TRUE(with->has_test());
  EXPECT_EQ(Names(*with, kValidation), Names(*without, kValidation));
  EXPECT_NEAR(Names(*with, Corpus::Part::kTest).size(), 60, 20);
  EXPECT_EQ(Names(*with, kTrain).size() + Names(*with, kValidation).size() +
                Names(*with, Corpus::Part::kTest).size(),
            200u);
  EXPECT_NE(with->fingerprint(), without->fingerprint());
  spec.set_test_fraction(0.8);
  EXPECT_THAT(
      CodeDirectoryCorpus::Open(spec, 1, {}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("test_fraction")));
}

// Whichever parts the split points leave empty.
TEST_F(CodeDirectoryTest, ThreeFilesAreOneForEachPart) {
  for (int i = 0; i < 40; ++i) {
    TempFolder folder;
    for (int file = 0; file < 3; ++file) {
      folder.Write(absl::StrCat("f", i, "_", file), "some text");
    }
    v1::CodeDirectory spec = Spec(folder, 0.3);
    spec.set_test_fraction(0.3);
    ASSERT_OK_AND_ASSIGN(const auto corpus,
                         CodeDirectoryCorpus::Open(spec, 1, {}));
    for (const auto part : {kTrain, kValidation, Corpus::Part::kTest}) {
      EXPECT_EQ(corpus->files(part).size(), 1u);
    }
    spec.set_max_bytes(20);
    EXPECT_THAT(CodeDirectoryCorpus::Open(spec, 1, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("training, validation and test")));
  }
}

TEST_F(CodeDirectoryTest, LimitsOnBytes) {
  WriteMany(folder_);
  folder_.Write("big", std::string(1000, 'x'));
  v1::CodeDirectory spec = Spec(folder_);
  spec.set_max_file_bytes(999);
  spec.set_max_bytes(505);
  ASSERT_OK_AND_ASSIGN(const auto corpus,
                       CodeDirectoryCorpus::Open(spec, 1, {}));
  EXPECT_EQ(corpus->files(kTrain).size() + corpus->files(kValidation).size(),
            50u);
}

TEST_F(CodeDirectoryTest, OverlappingRootsGiveEachFileOnce) {
  WriteMany(folder_);
  v1::CodeDirectory spec = Spec(folder_);
  spec.add_roots(folder_ / "");
  ASSERT_OK_AND_ASSIGN(const auto corpus,
                       CodeDirectoryCorpus::Open(spec, 1, {}));
  EXPECT_EQ(corpus->files(kTrain).size() + corpus->files(kValidation).size(),
            200u);
}

TEST_F(CodeDirectoryTest, BinaryAndBrokenFilesAreSkippedAndCounted) {
  folder_.Write("good.py", "print(1)");
  folder_.Write("also.py", "print(2)");
  folder_.Write("nul.py", std::string("a\0b", 3));
  folder_.Write("latin1.py", "caf\xe9");
  folder_.Write("empty.py", "");
  std::vector<std::string> reports;
  ASSERT_OK_AND_ASSIGN(
      const auto corpus,
      CodeDirectoryCorpus::Open(
          Spec(folder_, 1e-9), 1,
          [&reports](const std::string& what) { reports.push_back(what); }));
  ASSERT_OK_AND_ASSIGN(Texts texts, Read(*corpus, kTrain));
  ASSERT_OK_AND_ASSIGN(const Texts held_out, Read(*corpus, kValidation));
  texts.insert(texts.end(), held_out.begin(), held_out.end());
  EXPECT_THAT(texts, ::testing::UnorderedElementsAre("print(1)", "print(2)"));
  ASSERT_EQ(reports.size(), 2u);
  const std::string all = reports[0] + reports[1];
  EXPECT_THAT(all, HasSubstr("1 binary"));
  EXPECT_THAT(all, HasSubstr("1 not UTF-8"));
}

TEST_F(CodeDirectoryTest, FilesThatChangeMeanwhileAreSkipped) {
  for (const char* name : {"a", "b", "c"}) folder_.Write(name, "text");
  ASSERT_OK_AND_ASSIGN(const auto corpus,
                       CodeDirectoryCorpus::Open(Spec(folder_), 1, {}));
  TempFolder outside;
  for (const char* name : {"a", "b", "c"}) {
    std::filesystem::remove(folder_ / name);
    std::filesystem::create_symlink(outside.Write(name, "text"),
                                    folder_ / name);
  }
  EXPECT_THAT(*Read(*corpus, kTrain), IsEmpty());
}

TEST_F(CodeDirectoryTest, EachPartHasAFile) {
  folder_.Write("a", "text");
  EXPECT_THAT(CodeDirectoryCorpus::Open(Spec(folder_), 1, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("training and validation need one each")));
  folder_.Write("b", "text");
  for (const double fraction : {1e-9, 1 - 1e-9}) {
    ASSERT_OK_AND_ASSIGN(
        const auto corpus,
        CodeDirectoryCorpus::Open(Spec(folder_, fraction), 1, {}));
    EXPECT_EQ(corpus->files(kTrain).size(), 1u);
    EXPECT_EQ(corpus->files(kValidation).size(), 1u);
  }
}

TEST_F(CodeDirectoryTest, BadSpecs) {
  v1::CodeDirectory spec;
  EXPECT_THAT(CodeDirectoryCorpus::Open(spec, 1, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("roots")));
  spec = Spec(folder_);
  EXPECT_THAT(CodeDirectoryCorpus::Open(spec, 1, {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("globs")));
  spec.set_roots(0, folder_ / "none");
  EXPECT_THAT(CodeDirectoryCorpus::Open(spec, 1, {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  for (const double fraction : {-0.1, 1.0, 2.0, std::nan("")}) {
    EXPECT_THAT(CodeDirectoryCorpus::Open(Spec(folder_, fraction), 1, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("validation_fraction")));
  }
  spec = Spec(folder_);
  spec.set_max_bytes(-1);
  EXPECT_THAT(
      CodeDirectoryCorpus::Open(spec, 1, {}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_bytes")));
  spec = Spec(folder_);
  spec.set_max_file_bytes(int64_t{1} << 40);
  EXPECT_THAT(CodeDirectoryCorpus::Open(spec, 1, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_file_bytes")));
}

}  // namespace
}  // namespace comera::trainer
