// Checks comera run --auto as far as it works without a cluster: the jobs that
// it writes, and what it says of data and targets that it cannot use.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/main/cli.h"
#include "client/job_file.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

std::string Folder() {
  return absl::StrCat(std::getenv("TEST_TMPDIR"), "/auto");
}

Outcome RunComera(const std::string& args) {
  std::ostringstream out, err;
  Environment environment;
  environment.out = &out;
  environment.err = &err;
  environment.server = "127.0.0.1:1";
  environment.working_folder = Folder();
  const std::vector<std::string> split =
      absl::StrSplit(args, ' ', absl::SkipEmpty());
  const int code = RunCli(split, environment);
  return {code, out.str(), err.str()};
}

void Write(const std::string& name, const std::string& contents) {
  const std::filesystem::path path = Folder() + "/" + name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << contents;
}

// The job that a dry run prints, read as a job file.
v1::JobSpec PrintedJob(const std::string& args) {
  const Outcome outcome =
      RunComera(absl::StrCat("run --auto --dry-run ", args));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto spec =
      ParseJobFile(outcome.out, "printed.yaml", JobFileFormat::kYaml);
  EXPECT_OK(spec);
  return spec.ok() ? *spec : v1::JobSpec();
}

TEST(AutoCliTest, LabelledTextsMakeAClassifier) {
  // A cell with a comma, quotes and a line end, and one with nothing special.
  Write("data.csv",
        "label,text\npos,\"good, \"\"very\"\"\ngood\"\nneg,bad\npos,fine\n");
  const v1::JobSpec spec = PrintedJob(
      "data.csv --target-accuracy 0.8 --target-size 60k --budget 90s");
  EXPECT_EQ(spec.compression().method(), v1::CompressionSpec::AUTO);
  EXPECT_EQ(spec.model().family(), v1::ModelSpec::ENCODER_CLASSIFIER);
  EXPECT_EQ(spec.model().classes(), 2);
  const v1::LabelledText& data = spec.data().labelled_text();
  EXPECT_EQ(data.train(), Folder() + "/data.csv");
  EXPECT_EQ(data.text(), "text");
  EXPECT_EQ(data.label(), "label");
  EXPECT_THAT(data.labels(), ElementsAre("neg", "pos"));
  EXPECT_EQ(spec.objective().late().target_accuracy(), 0.8);
  EXPECT_EQ(spec.objective().late().target_parameters(), 60000);
  EXPECT_EQ(spec.budget().time().seconds(), 90);
}

TEST(AutoCliTest, AByteOrderMarkBelongsToNoName) {
  const std::string mark = "\xEF\xBB\xBF";
  Write("marked.csv", mark + "\"label\",text\npos,good\nneg,bad\n");
  v1::JobSpec spec = PrintedJob("marked.csv --target-accuracy 0.8");
  EXPECT_EQ(spec.data().labelled_text().label(), "label");
  Write("marked.tsv", mark + "text\tlabel\ngood\tpos\nbad\tneg\n");
  spec = PrintedJob("marked.tsv --target-accuracy 0.8");
  EXPECT_EQ(spec.data().labelled_text().text(), "text");
}

TEST(AutoCliTest, PairsJsonLinesAndOtherColumns) {
  Write("pairs.tsv",
        "premise\thypothesis\tlabel\na\tb\tyes\nc\td\tno\ne\tf\tmaybe\n");
  v1::JobSpec spec = PrintedJob("pairs.tsv --target-accuracy 0.5");
  EXPECT_EQ(spec.data().labelled_text().second_text(), "hypothesis");
  EXPECT_EQ(spec.model().classes(), 3);
  EXPECT_EQ(spec.budget().time().seconds(), 600);
  Write("rows.jsonl",
        "{\"said\": \"a\", \"stars\": 1}\n{\"said\": \"b\", \"stars\": 5}\n");
  spec = PrintedJob(
      "rows.jsonl --text said --label stars --target-loss 0.5 --set "
      "model.layers=1");
  EXPECT_THAT(spec.data().labelled_text().labels(), ElementsAre("1", "5"));
  EXPECT_EQ(spec.model().layers(), 1);
}

TEST(AutoCliTest, CodeAndTextsMakeALanguageModel) {
  Write("src/a.py", "def f(): pass\n");
  Write("src/deep/b.c", "int main(void) { return 0; }\n");
  Write("src/notes.bin", "x");
  v1::JobSpec spec = PrintedJob("src --target-loss 3 --target-size 256KiB");
  EXPECT_EQ(spec.model().family(), v1::ModelSpec::MASKED_LM);
  EXPECT_THAT(spec.data().code_directory().globs(), ElementsAre("*.c", "*.py"));
  EXPECT_EQ(spec.objective().late().target_bytes(), 256 << 10);
  Write("texts.jsonl", "{\"text\": \"a\"}\n");
  Write("dev.jsonl", "{\"text\": \"b\"}\n");
  spec = PrintedJob("texts.jsonl --validation dev.jsonl --target-size 1.5M");
  EXPECT_THAT(spec.data().jsonl().fields(), ElementsAre("text"));
  EXPECT_EQ(spec.data().jsonl().validation(), Folder() + "/dev.jsonl");
  EXPECT_EQ(spec.objective().late().target_parameters(), 1500000);
}

TEST(AutoCliTest, PlainTextMakesACausalLanguageModel) {
  Write("plays.txt", "First Citizen: speak.\n");
  Write("held_out.txt", "All: speak.\n");
  v1::JobSpec spec = PrintedJob("plays.txt --target-loss 3 --target-size 60k");
  EXPECT_EQ(spec.model().family(), v1::ModelSpec::CAUSAL_LM);
  EXPECT_THAT(spec.data().text().train(), ElementsAre(Folder() + "/plays.txt"));
  EXPECT_TRUE(spec.data().text().validation().empty());
  spec = PrintedJob("plays.txt --validation held_out.txt --target-loss 3");
  EXPECT_THAT(spec.data().text().validation(),
              ElementsAre(Folder() + "/held_out.txt"));
  EXPECT_THAT(RunComera("run --auto plays.txt --target-accuracy 0.5").err,
              HasSubstr("a language model takes --target-loss"));
}

TEST(AutoCliTest, SaysWhatItCannotUse) {
  Write("data.csv", "label,text\npos,a\nneg,b\n");
  Write("ragged.csv", "label,text\npos,a,b\n");
  Write("same.csv", "label,text\npos,a\npos,b\n");
  Write("open.csv", "label,text\npos,\"a\n");
  Write("other.csv", "a,b,c\n1,2,3\n");
  Write("texts.jsonl", "{\"text\": \"a\"}\n");
  Write("stars.jsonl", "{\"text\": \"a\", \"label\": 1.50}\n");
  Write("page.html", "x");
  Write("empty/x.bin", "x");
  for (const auto& [args, said] :
       std::vector<std::pair<std::string, std::string>>{
           {"data.csv", "--auto needs a target"},
           {"data.csv --target-accuracy 0.8 --target-loss 1", "excludes"},
           {"data.csv --target-accuracy much", "--target-accuracy: "},
           {"data.csv --target-size 60x", "--target-size: `60x` is no size"},
           {"data.csv --target-accuracy 0.8 --budget soon", "--budget: "},
           {"data.csv --target-accuracy 0.8 --label no",
            "there is no column no (it has label, text)"},
           {"ragged.csv --target-accuracy 0.8",
            "ragged.csv:2: the row has 3 cells, the header 2"},
           {"same.csv --target-accuracy 0.8", "all rows have the same label"},
           {"open.csv --target-accuracy 0.8", "a quoted cell does not end"},
           {"other.csv --target-accuracy 0.8", "which column holds the text"},
           {"texts.jsonl --target-loss 3", "--validation"},
           {"stars.jsonl --target-accuracy 0.8",
            "stars.jsonl:1: the label is neither a text, a whole number"},
           {"src_without --target-loss 3",
            "data are a .csv, .tsv, .jsonl or .txt"},
           {"missing.txt --target-loss 3", "there is no such file"},
           {"page.html --target-loss 3",
            "data are a .csv, .tsv, .jsonl or .txt"},
           {"empty --target-loss 3", "holds no source code or text"}}) {
    const Outcome outcome = RunComera(absl::StrCat("run --auto ", args));
    EXPECT_EQ(outcome.code, 1) << args;
    EXPECT_EQ(outcome.out, "") << args;
    EXPECT_THAT(outcome.err, HasSubstr(said)) << args;
  }
}

TEST(AutoCliTest, TargetsWithoutAutoAreAUsageError) {
  const Outcome outcome = RunComera("run job.yaml --target-loss 3");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("need --auto"));
}

TEST(AutoCliTest, SearchFilesAreValidWithAndWithoutASection) {
  const std::string job = R"(
model: {family: masked_lm, layers: 1, hidden: 32, heads: 2}
data:
  code_directory: {roots: [/usr/include], globs: ["*.h"]}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 400}
  max_length: 32
compression: {method: auto}
objective: {late: {target_loss: 4}}
training: {batch_size: 16}
)";
  Write("auto.yaml", job + "budget: {time: 5m}\n");
  Write("section.yaml",
        job + "budget: {steps: 1000}\nsweep: {search: {candidates: 4}}\n");
  Write("endless.yaml", job);
  Write("many.yaml",
        job + "budget: {steps: 10}\nsweep: {search: {candidates: 99}}\n");
  for (const char* name : {"auto.yaml", "section.yaml"}) {
    const Outcome outcome =
        RunComera(absl::StrCat("validate ", Folder(), "/", name));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  Outcome outcome =
      RunComera(absl::StrCat("validate ", Folder(), "/endless.yaml"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("job.budget: is missing"));
  outcome = RunComera(absl::StrCat("submit ", Folder(), "/many.yaml"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("search.candidates: must be 2 to 32"));
}

}  // namespace
}  // namespace comera::client
