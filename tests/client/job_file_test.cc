// Checks reading of job files in all formats, and the errors for bad ones.

#include "client/job_file.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"

namespace comera::client {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<v1::JobSpec> Yaml(const std::string& text) {
  return ParseJobFile(text, "job.yaml", JobFileFormat::kYaml);
}

TEST(JobFileTest, ReadsEveryKindOfValue) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, Yaml(R"(
display_name: 'a: "b'
labels: {team: x, "k/1": "2"}
model: {family: masked_lm, layers: 2, dropout_off: true}
data:
  code_directory:
    roots: [/a, /b]
    globs: "*.h"          # one value for a list
    max_bytes: 64MiB
    max_file_bytes: 1.5kB
  tokenizer: {lowercase: false}
compression:
  attention: {input_modes: auto, ranks: [1, 2, 3]}
  embedding: &layer {ranks: 7}
  head: *layer
objective:
  late:
    targets:              # a list of groups
      - {target_loss: 1.5, target_ratio: 0.8}
      - target_loss: 2
        target_bytes: 4KiB
training: {phases: {steps: 3}, seed: 18446744073709551615}  # one group for it
optimizer: {learning_rate_cores: 1e-4, decay: Cosine}
time_limit: 1h30m
)"));
  EXPECT_EQ(spec.display_name(), "a: \"b");
  EXPECT_EQ(spec.labels().at("k/1"), "2");
  EXPECT_EQ(spec.model().family(), v1::ModelSpec::MASKED_LM);
  EXPECT_TRUE(spec.model().dropout_off());
  EXPECT_EQ(spec.data().code_directory().roots_size(), 2);
  EXPECT_EQ(spec.data().code_directory().globs(0), "*.h");
  EXPECT_EQ(spec.data().code_directory().max_bytes(), 64 << 20);
  EXPECT_EQ(spec.data().code_directory().max_file_bytes(), 1500);
  EXPECT_TRUE(spec.data().tokenizer().has_lowercase());
  EXPECT_FALSE(spec.data().tokenizer().lowercase());
  EXPECT_EQ(spec.compression().attention().input_modes_size(), 0);
  EXPECT_EQ(spec.compression().attention().ranks(2), 3);
  EXPECT_EQ(spec.compression().head().ranks(0), 7);
  EXPECT_EQ(spec.optimizer().learning_rate_cores(), 1e-4);
  ASSERT_EQ(spec.objective().late().targets_size(), 2);
  EXPECT_EQ(spec.objective().late().targets(0).target_ratio(), 0.8);
  EXPECT_EQ(spec.objective().late().targets(1).target_bytes(), 4096);
  ASSERT_EQ(spec.training().phases_size(), 1);
  EXPECT_EQ(spec.training().phases(0).steps(), 3);
  EXPECT_EQ(spec.optimizer().decay(), v1::OptimizerSpec::COSINE);
  EXPECT_EQ(spec.training().seed(), 18446744073709551615u);
  EXPECT_EQ(spec.time_limit().seconds(), 5400);
}

struct BadYaml {
  const char* text;
  const char* error;  // a part of the expected message
};

TEST(JobFileTest, RefusesBadYamlByFileLineAndField) {
  const BadYaml rows[] = {
      {"", "job.yaml:1: is empty"},
      {"# nothing\n", "job.yaml:1: is empty"},
      {"just text", "job.yaml:1: needs fields, has a single value"},
      {"- a\n- b\n", "job.yaml:1: needs fields, has a list"},
      {"model:\n  layers: 2\n  hiden: 48\n",
       "job.yaml:3: model.hiden: unknown field (did you mean `hidden`?)"},
      {"zzz: 1\n", "job.yaml:1: zzz: unknown field"},
      {"model:\n  layers: 2\n  layers: 3\n",
       "job.yaml:3: duplicate key `layers`"},
      {"model:\n  layers: two\n",
       "job.yaml:2: model.layers: `two` is not a whole number"},
      {"model:\n  layers: \"2\"\n", "job.yaml:2: model.layers: `2` is not"},
      {"model:\n  layers: 2.5\n", "job.yaml:2: model.layers: `2.5` is not"},
      {"model:\n  layers: 99999999999\n",
       "job.yaml:2: model.layers: 99999999999 is out of range"},
      {"model:\n  hidden: 99999999999999999999\n", "job.yaml:2: model.hidden"},
      {"model:\n  layers: [1]\n",
       "job.yaml:2: model.layers: needs one value, has a list"},
      {"model:\n  layers: {a: 1}\n", "job.yaml:2: model.layers: needs one"},
      {"model:\n  layers:\n  heads: 2\n",
       "job.yaml:2: model.layers: has no value"},
      {"model: ~\n", "job.yaml:1: model: has no value"},
      {"model: 3\n", "job.yaml:1: model: needs fields, has a single value"},
      {"model:\n  family: maskedlm\n",
       "job.yaml:2: model.family: `maskedlm` is none of encoder_classifier, "
       "masked_lm, dlrm, causal_lm (did you mean `masked_lm`?)"},
      {"model:\n  family: family_unspecified\n", "job.yaml:2: model.family"},
      {"model:\n  family: 2\n", "job.yaml:2: model.family"},
      {"model:\n  dropout: .nan\n", "job.yaml:2: model.dropout: `.nan`"},
      {"model:\n  dropout: nan\n", "job.yaml:2: model.dropout: `nan`"},
      {"model:\n  dropout: 1e999\n", "job.yaml:2: model.dropout"},
      {"model:\n  dropout_off: yes\n",
       "job.yaml:2: model.dropout_off: `yes` is not true or false"},
      {"training:\n  seed: -1\n", "job.yaml:2: training.seed: `-1`"},
      {"data:\n  code_directory:\n    max_bytes: 64 parsecs\n",
       "job.yaml:3: data.code_directory.max_bytes: `64 parsecs`"},
      {"data:\n  code_directory:\n    max_bytes: 99999999999TiB\n",
       "job.yaml:3: data.code_directory.max_bytes"},
      {"data:\n  code_directory:\n    roots: {a: b}\n",
       "job.yaml:3: data.code_directory.roots: needs a list"},
      {"data:\n  code_directory:\n    roots: [/a, [/b]]\n",
       "job.yaml:3: data.code_directory.roots[1]: needs one value"},
      {"data:\n  jsonl:\n    train: /t\n  glue_tsv:\n    train: /t\n",
       "job.yaml:4: data.glue_tsv: excludes `jsonl`"},
      {"objective:\n  late:\n    target_ratio: 1\n    target_bytes: 5\n",
       "job.yaml:4: objective.late.target_bytes: excludes `target_ratio`"},
      {"objective:\n  late:\n    targets: 3\n",
       "job.yaml:3: objective.late.targets: needs a list, has a single value"},
      {"objective:\n  late:\n    targets:\n      - 3\n",
       "job.yaml:4: objective.late.targets[0]: needs fields"},
      {"objective:\n  late:\n    targets:\n      - {target_ratio: 1}\n"
       "      - {target_ratio: 1, target_bytes: 5}\n",
       "job.yaml:5: objective.late.targets[1].target_bytes: excludes"},
      {"compression:\n  head:\n    ranks: [1, x]\n",
       "job.yaml:3: compression.head.ranks[1]: `x`"},
      {"compression:\n  head:\n    ranks: none\n",
       "job.yaml:3: compression.head.ranks: `none`"},
      {"time_limit: 5\n", "job.yaml:1: time_limit: `5` is not a duration"},
      {"time_limit: inf\n", "job.yaml:1: time_limit"},
      {"time_limit: [1h]\n", "job.yaml:1: time_limit"},
      {"labels: [a]\n", "job.yaml:1: labels: needs keys and values"},
      {"labels:\n  a: [b]\n", "job.yaml:2: labels[a]: needs one value"},
      {"labels: {[a]: b}\n", "job.yaml:1: a key must be text"},
      {"labels: {a: 1, a: 2}\n", "job.yaml:1: duplicate key `a`"},
      {"display_name: !!binary aGk=\n", "job.yaml:1: tags"},
      {"queue: a\ndisplay_name: \"open\n", "job.yaml:2: the quote is never"},
      {"queue: 'a''\n", "job.yaml:1: the quote is never closed"},
      {"queue: \"a\\\"\n", "job.yaml:1: the quote is never closed"},
      {"queue: \"é\" \"b", "job.yaml:1:"},
      {"model: {layers: 2\n", "job.yaml:"},
      {"model:\n\tlayers: 2\n", "job.yaml:"},
      {"a: *missing\n", "job.yaml:1:"},
      {"a: &x [*x]\n", "job.yaml:1:"},
      {"queue: a\n---\nqueue: b\n", "more than one document"},
      {"display_name: \"\xff\"\n", "job.yaml:1: is not UTF-8 text"},
  };
  for (const BadYaml& row : rows) {
    EXPECT_THAT(Yaml(row.text), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr(std::string(row.error))))
        << row.text;
  }
}

TEST(JobFileTest, TellsAllMistakesAndWhereFieldsStand) {
  const JobFileText text = ReadJobText(
      "model:\n  hiden: 1\n  layers: two\n  heads: 3\nresorces: {}\n"
      "training:\n  phases: [{step: 9}, {steps: x}]\nlabels: {a: [b]}\n",
      "job.yaml", JobFileFormat::kYaml);
  EXPECT_THAT(
      std::vector<std::string>(absl::StrSplit(text.status.message(), '\n')),
      ElementsAre(
          StartsWith("job.yaml:2: model.hiden: unknown field"),
          StartsWith("job.yaml:3: model.layers: `two` is not"),
          StartsWith("job.yaml:5: resorces: unknown field"),
          StartsWith("job.yaml:7: training.phases[0].step: unknown field"),
          StartsWith("job.yaml:7: training.phases[1].steps: `x`"),
          StartsWith("job.yaml:8: labels[a]: needs one value")));
  EXPECT_EQ(text.spec.model().heads(), 3);
  EXPECT_EQ(LineOf(text.lines, "model.heads"), 4);
  EXPECT_EQ(LineOf(text.lines, "training.phases[1].steps"), 7);
  EXPECT_EQ(LineOf(text.lines, "labels[a]"), 8);
  // Nothing of it is in the file, but the group around it is.
  EXPECT_EQ(LineOf(text.lines, "model.dlrm.tables[3].rows"), 1);
  EXPECT_EQ(LineOf(text.lines, "data.max_length"), 0);
  // Lines are known by the current names.
  const JobFileText json = ReadJobText(
      "{\"model\":\n {\"tieOutput\": true},\n\"resources\":\n "
      "{\"threads_per_rank\": 1}}",
      "job.json", JobFileFormat::kJson);
  EXPECT_OK(json.status);
  EXPECT_EQ(LineOf(json.lines, "model.tie_output"), 2);
  EXPECT_EQ(LineOf(json.lines, "resources.threads_per_process"), 4);
}

TEST(JobFileTest, ALongListOfMistakesHasAnEnd) {
  std::string text;
  for (int i = 0; i < 9000; ++i) absl::StrAppend(&text, "x", i, ": 1\n");
  EXPECT_LT(Yaml(text).status().message().size(), 16384);
}

TEST(JobFileTest, ReadsListsOfGroups) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, Yaml(R"(
training:
  phases:
    - {steps: 9, max_length: 8}
    - steps: 3
      max_length: 16
      batch_size: 2
)"));
  ASSERT_EQ(spec.training().phases_size(), 2);
  EXPECT_EQ(spec.training().phases(0).steps(), 9);
  EXPECT_EQ(spec.training().phases(1).batch_size(), 2);
  EXPECT_THAT(Yaml("training:\n  phases: [{step: 9}]\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("job.yaml:2: training.phases[0].step: "
                                 "unknown field")));
  EXPECT_THAT(Yaml("training: {phases: 3}\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("training.phases: needs a list")));
  EXPECT_THAT(Yaml("training: {phases: [3]}\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("training.phases[0]")));
}

TEST(JobFileTest, RefusesBombs) {
  // Nested aliases that would expand to 10^9 values.
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string ref = absl::StrCat("*a", i - 1, ",");
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) bomb += ref;
    bomb += "]\n";
  }
  EXPECT_THAT(Yaml(bomb), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("more than 10000 values")));
  EXPECT_THAT(Yaml(std::string(100, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Yaml(std::string(500'000, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Yaml(std::string(40, '[') + "x" + std::string(40, ']')),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("nested deeper than 32")));
  EXPECT_THAT(
      Yaml(std::string(2 << 20, 'x')),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("larger than")));
  EXPECT_THAT(
      ParseJobFile(std::string(1 << 20, '['), "j.json", JobFileFormat::kJson),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(JobFileTest, ReadsJsonAsProtobufWritesIt) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, Yaml(R"(
display_name: "quo\"te / \\ é"
model: {family: masked_lm, hidden: 48}
compression: {head: {ranks: [3, 4]}}
objective: {late: {target_ratio: 0.5}}
time_limit: 90s
)"));
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  ASSERT_TRUE(
      google::protobuf::util::MessageToJsonString(spec, &json, options).ok());
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec again,
                       ParseJobFile(json, "job.json", JobFileFormat::kJson));
  EXPECT_TRUE(MessageDifferencer::Equals(spec, again)) << json;
  const char* names = "{\"display_name\":\"x\",\n\t\"model\":{\"layers\":2}}";
  EXPECT_OK(ParseJobFile(names, "job.json", JobFileFormat::kJson));
}

TEST(JobFileTest, RefusesBadJsonAndTextproto) {
  const auto json = [](const char* text) {
    return ParseJobFile(text, "j.json", JobFileFormat::kJson);
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(json("{\n\"model\": {,}}"),
              StatusIs(invalid, HasSubstr("j.json:2:")));
  EXPECT_THAT(json("{\n\"model\": {\n\"layer\": 2}}"),
              StatusIs(invalid, HasSubstr("j.json:3: model.layer: unknown")));
  EXPECT_THAT(json("queue: yaml"), StatusIs(invalid, HasSubstr("j.json:1:")));
  EXPECT_THAT(json("{\"queue\":\"a\",\"queue\":\"b\"}"),
              StatusIs(invalid, HasSubstr("duplicate key `queue`")));
  EXPECT_THAT(ParseJobFile("queue: \"a\"\nzzz: 1\n", "j.textproto",
                           JobFileFormat::kTextproto),
              StatusIs(invalid, HasSubstr("j.textproto:2:")));
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec,
                       ParseJobFile("model { family: MASKED_LM }",
                                    "j.textproto", JobFileFormat::kTextproto));
  EXPECT_EQ(spec.model().family(), v1::ModelSpec::MASKED_LM);
}

TEST(JobFileTest, SetsSingleFields) {
  ASSERT_OK_AND_ASSIGN(v1::JobSpec spec,
                       Yaml("compression: {head: {ranks: [3, 4]}}\n"
                            "data: {jsonl: {train: /t}}\n"));
  EXPECT_OK(SetJobField("model.hidden=96", "/here", &spec));
  EXPECT_OK(SetJobField("compression.head.ranks=[5, 6, 7]", "/here", &spec));
  EXPECT_OK(SetJobField("data.glue_tsv.train=a/../t.tsv", "/here", &spec));
  EXPECT_OK(SetJobField("labels.a.b=c=d", "/here", &spec));
  EXPECT_OK(SetJobField("time_limit=2h", "/here", &spec));
  EXPECT_EQ(spec.model().hidden(), 96);
  EXPECT_EQ(spec.compression().head().ranks_size(), 3);
  EXPECT_EQ(spec.data().glue_tsv().train(), "/here/t.tsv");
  EXPECT_FALSE(spec.data().has_jsonl());
  EXPECT_EQ(spec.labels().at("a.b"), "c=d");
  EXPECT_EQ(spec.time_limit().seconds(), 7200);
  for (const char* bad :
       {"", "=1", "model", "model.hidden=", "model.hidden=x", "model.hiden=1",
        "model.hidden.x=1", "model=3", "compression.head.ranks.x=1",
        "time_limit.seconds=3", ".=1", "model..hidden=1"}) {
    EXPECT_THAT(SetJobField(bad, "/here", &spec),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << bad;
  }
}

TEST(JobFileTest, FormerNamesAreReadAndNoted) {
  const std::string yaml =
      "priority: 1\nresources:\n  ranks: 4\n  min_ranks: 2\n"
      "  threads_per_rank: 3\n";
  const std::string json =
      "{\n\"priority\": 1, \"resources\": {\n\"ranks\": 4,\n"
      "\"minRanks\": 2,\n\"threadsPerRank\": 3}}";
  const std::string textproto =
      "priority: 1  # ranks: 9\nresources {\n  ranks: 4\n  min_ranks: 2\n"
      "  threads_per_rank: 3 }\n"
      "compression { head { ranks: [1, 2] } }\n";
  for (const auto& [text, format] :
       std::vector<std::pair<std::string, JobFileFormat>>{
           {yaml, JobFileFormat::kYaml},
           {json, JobFileFormat::kJson},
           {textproto, JobFileFormat::kTextproto}}) {
    std::vector<std::string> notes;
    ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec,
                         ParseJobFile(text, "j", format, &notes));
    EXPECT_EQ(spec.priority(), 1);
    EXPECT_EQ(spec.resources().processes(), 4);
    EXPECT_EQ(spec.resources().min_processes(), 2);
    EXPECT_EQ(spec.resources().threads_per_process(), 3);
    ASSERT_EQ(notes.size(), 3u) << text;
    EXPECT_EQ(notes[0],
              "j:3: resources.ranks is now called resources.processes; the old "
              "name is still read");
    EXPECT_THAT(notes[1], HasSubstr("called resources.min_processes"));
    EXPECT_THAT(notes[2], HasSubstr("called resources.threads_per_process"));
  }
}

TEST(JobFileTest, BothNamesOfAFieldAreAnError) {
  const auto both = StatusIs(
      absl::StatusCode::kInvalidArgument,
      HasSubstr("j:3: resources.ranks: is `processes`, which is given too"));
  EXPECT_THAT(ParseJobFile("resources:\n  processes: 1\n  ranks: 1\n", "j",
                           JobFileFormat::kYaml),
              both);
  EXPECT_THAT(ParseJobFile("resources {\n  processes: 1\n  ranks: 1\n}\n", "j",
                           JobFileFormat::kTextproto),
              both);
  EXPECT_THAT(ParseJobFile("{\"resources\": {\n\"processes\": 1,\n"
                           "\"ranks\": 1}}",
                           "j", JobFileFormat::kJson),
              both);
}

TEST(JobFileTest, MalformedTextprotosWithFormerNamesNameTheLine) {
  for (const char* text :
       {"resources {\n ranks: x }", "resources {\n ranks: 1 ranks: 2 }",
        "resources {\n ranks 1 }", "resources {\n ranks: 1 } }"}) {
    EXPECT_THAT(ParseJobFile(text, "j", JobFileFormat::kTextproto),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("j:2:")))
        << text;
  }
}

TEST(JobFileTest, SetsFieldsByFormerNames) {
  v1::JobSpec spec;
  std::vector<std::string> notes;
  EXPECT_OK(SetJobField("resources.ranks=2", "/here", &spec, &notes));
  EXPECT_EQ(spec.resources().processes(), 2);
  EXPECT_THAT(notes,
              ElementsAre("--set resources.ranks=2: resources.ranks is now "
                          "called resources.processes; the old name is still "
                          "read"));
}

TEST(JobFileTest, ResolvesPathsBelowTheFilesFolder) {
  const std::string path =
      absl::StrCat(std::getenv("TEST_TMPDIR"), "/job.yaml");
  std::ofstream(path) << "data: {glue_tsv: {train: d/t.tsv, validation: /v}}\n"
                         "initial_weights: {safetensors: dense/m.safetensors}";
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, ReadJobFile(path));
  EXPECT_EQ(spec.data().glue_tsv().train(),
            absl::StrCat(std::getenv("TEST_TMPDIR"), "/d/t.tsv"));
  EXPECT_EQ(spec.data().glue_tsv().validation(), "/v");
  EXPECT_EQ(spec.initial_weights().safetensors(),
            absl::StrCat(std::getenv("TEST_TMPDIR"), "/dense/m.safetensors"));
  EXPECT_THAT(ReadJobFile("/nonexistent/job.yaml"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(
      ReadJobFile("job.txt"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends in .yaml")));
}

TEST(JobFileTest, DatasetPathsStay) {
  ASSERT_OK_AND_ASSIGN(
      v1::JobSpec spec,
      ParseJobFile("data: {glue_tsv: {train: datasets/mnli@2/train.tsv, "
                   "validation: ./datasets/v.tsv}}",
                   "job.yaml", JobFileFormat::kYaml));
  ResolveDataPaths("/jobs/x", &spec);
  EXPECT_EQ(spec.data().glue_tsv().train(), "datasets/mnli@2/train.tsv");
  EXPECT_EQ(spec.data().glue_tsv().validation(), "/jobs/x/datasets/v.tsv");
}

TEST(JobFileTest, UrlsStay) {
  ASSERT_OK_AND_ASSIGN(
      v1::JobSpec spec,
      ParseJobFile("data: {text: {train: ['https://h/a?x=1', 's3://bucket/a', "
                   "'gs://bucket/a', 'https:/h/a']}}",
                   "job.yaml", JobFileFormat::kYaml));
  ResolveDataPaths("/jobs/x", &spec);
  EXPECT_EQ(spec.data().text().train(0), "https://h/a?x=1");
  EXPECT_EQ(spec.data().text().train(1), "s3://bucket/a");
  // The coordinator says that it cannot be used.
  EXPECT_EQ(spec.data().text().train(2), "gs://bucket/a");
  EXPECT_EQ(spec.data().text().train(3), "/jobs/x/https:/h/a");
}

TEST(JobFileTest, PatternsOfTextsAreRelativeToTheFile) {
  ASSERT_OK_AND_ASSIGN(
      v1::JobSpec spec,
      ParseJobFile("data: {text: {train: [t/*.txt, datasets/d/*.txt], "
                   "test: /e.txt}, tokenizer: {tokenizer_file: m.model}}",
                   "job.yaml", JobFileFormat::kYaml));
  ResolveDataPaths("/jobs/x", &spec);
  EXPECT_EQ(spec.data().text().train(0), "/jobs/x/t/*.txt");
  EXPECT_EQ(spec.data().text().train(1), "datasets/d/*.txt");
  EXPECT_EQ(spec.data().text().test(0), "/e.txt");
  EXPECT_EQ(spec.data().tokenizer().tokenizer_file(), "/jobs/x/m.model");
}

TEST(JobFileTest, ClickLogPathsAreRelativeToTheFile) {
  ASSERT_OK_AND_ASSIGN(
      v1::JobSpec spec,
      ParseJobFile("data: {criteo_tsv: {files: [a.tsv, /b.gz, ../c]}}",
                   "job.yaml", JobFileFormat::kYaml));
  ResolveDataPaths("/jobs/x", &spec);
  ASSERT_EQ(spec.data().criteo_tsv().files_size(), 3);
  EXPECT_EQ(spec.data().criteo_tsv().files(0), "/jobs/x/a.tsv");
  EXPECT_EQ(spec.data().criteo_tsv().files(1), "/b.gz");
  EXPECT_EQ(spec.data().criteo_tsv().files(2), "/jobs/c");
}

TEST(JobFileTest, ExamplesAreSound) {
  for (const char* name :
       {"quickstart_code_mlm", "quickstart_dense", "mnli_six_encoder",
        "mnli_six_encoder_dense", "mnli_small", "mnli_pareto", "codebert_large",
        "codebert_small", "dlrm_synthetic", "dlrm_criteo", "gpt2_characters",
        "llama_60m", "llama_small"}) {
    ASSERT_OK_AND_ASSIGN(
        const v1::JobSpec spec,
        ReadJobFile(absl::StrCat("docs/examples/", name, ".yaml")));
    for (const FieldViolation& violation : ValidateJobSpec(spec)) {
      ADD_FAILURE() << name << ": " << violation.field << ": "
                    << violation.description;
    }
    EXPECT_TRUE(ValidateJobSpec(WithDefaults(spec)).empty());
  }
}

}  // namespace
}  // namespace comera::client
