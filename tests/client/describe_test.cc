// Checks comera describe against programs that stand in for comera-trainer.
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/main/cli.h"
#include "client/program_output.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Folder() { return std::getenv("TEST_TMPDIR"); }

std::string Script(const std::string& name, const std::string& body) {
  const std::string path = absl::StrCat(Folder(), "/", name);
  std::ofstream(path) << "#!/bin/sh\n" << body;
  chmod(path.c_str(), 0755);
  return path;
}

std::string JobFile(const std::string& more = "") {
  const std::string path = absl::StrCat(Folder(), "/job.yaml");
  std::ofstream(path) << R"(
model: {family: masked_lm, layers: 2, hidden: 48, heads: 4}
data:
  code_directory: {roots: [/usr/include], globs: ["*.h"]}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 1000}
  max_length: 64
objective: {early: {steps: 10}}
training: {batch_size: 8}
)" << more;
  return path;
}

struct Outcome {
  int code;
  std::string out, err;
};

Outcome RunVerb(const std::string& args) {
  std::ostringstream out, err;
  Environment environment;
  environment.out = &out;
  environment.err = &err;
  environment.working_folder = Folder();
  environment.state_folder = absl::StrCat(Folder(), "/state");
  environment.binary_folder = "/nonexistent";
  const std::vector<std::string> split =
      absl::StrSplit(args, ' ', absl::SkipEmpty());
  const int code = RunCli(split, environment);
  return {code, out.str(), err.str()};
}

constexpr char kAnswer[] = R"(cat <<'END'
{"layers": [{"name": "layers.0.query", "path": "prefix/suffix",
  "groups": "12|34", "rows": 512, "multiply_adds": 1500000, "seconds": 0.001,
  "bytes": 2048, "dense_multiply_adds": 15000000, "dense_seconds": 0.01}],
 "step": {"seconds": 0.25, "forward_seconds": 0.1, "backward_seconds": 0.14,
  "optimizer_seconds": 0.01, "multiply_adds": 3e9, "dense_seconds": 1.5},
 "memory": {"parameters": 4096, "activations": 1048576, "peak": 2097152},
 "parameters": 1024, "dense_parameters": 65536,
 "assumptions": ["memory: without data"]}
END
)";

TEST(DescribeTest, TableTellsWhatTheTrainerFound) {
  const std::string trainer = Script("good", kAnswer);
  const Outcome outcome = RunVerb(
      absl::StrCat("describe ", JobFile(), " --trainer-binary ", trainer));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* said :
       {"layers.0.query", "prefix/suffix", "12|34", "1.50M", "1.00 ms",
        "10.00 ms", "10.0x", "2.00 KiB", "activations", "1.00 MiB", "2.00 MiB",
        "step: 250.00 ms", "dense 1500.00 ms", "1,024; dense 65,536",
        "assumed: memory: without data"}) {
    EXPECT_THAT(outcome.out, HasSubstr(said));
  }
  const Outcome json = RunVerb(absl::StrCat("describe ", JobFile(), " -o json",
                                            " --trainer-binary ", trainer));
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["memory"]["peak"], 2097152);
}

TEST(DescribeTest, LayersThatTensorTrainsMakeLargerAreNamed) {
  const std::string trainer = Script("larger", R"(cat <<'END'
{"layers": [
  {"name": "a", "class": "attention", "parameters": 11, "dense_parameters": 10},
  {"name": "b", "class": "attention", "parameters": 12, "dense_parameters": 10},
  {"name": "c", "class": "ffn_up", "parameters": 10, "dense_parameters": 10}]}
END
)");
  const Outcome outcome = RunVerb(
      absl::StrCat("describe ", JobFile(), " --trainer-binary ", trainer));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("larger than dense at these ranks: attention (2 "
                        "layers); give it lower ranks, or "
                        "compression.attention.dense: true\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("ffn_up (")));
}

TEST(DescribeTest, TheTaskCarriesTheJob) {
  const std::string seen = absl::StrCat(Folder(), "/seen");
  const std::string trainer = Script(
      "recorder",
      absl::StrCat("echo \"$@\" > ", seen, "\n",
                   "for a in \"$@\"; do case $a in --task=*) cat ",
                   "${a#--task=} >> ", seen, ";; esac; done\n", kAnswer));
  const Outcome outcome = RunVerb(absl::StrCat(
      "describe ", JobFile("resources: {processes: 2}\n"),
      " --vocabulary 777 --set training.batch_size=16 --trainer-binary ",
      trainer));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_OK_AND_ASSIGN(const std::string said, ReadFile(seen));
  EXPECT_THAT(said, HasSubstr("--describe --task="));
  EXPECT_THAT(said, HasSubstr("--vocabulary=777"));
  EXPECT_THAT(said, HasSubstr("\"batch_size\":16"));
  EXPECT_THAT(said, HasSubstr("\"world_size\":2"));
  EXPECT_THAT(said, HasSubstr("/state/worker/cache"));
}

TEST(DescribeTest, ErrorsAreToldAndNameNoTemporaryFile) {
  Outcome outcome = RunVerb(absl::StrCat("describe ", JobFile()));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--trainer-binary"));

  outcome = RunVerb(absl::StrCat("describe ", JobFile(),
                                 " --trainer-binary /nonexistent/trainer"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent/trainer"));

  const std::string bad =
      Script("bad",
             "echo \"comera-trainer: ${2#--task=}: model.heads: 5\" "
             ">&2; exit 1");
  outcome =
      RunVerb(absl::StrCat("describe ", JobFile(), " --trainer-binary ", bad));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("model.heads: 5"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("comera-task-")));

  const std::string noise = Script("noise", "echo hello");
  outcome = RunVerb(
      absl::StrCat("describe ", JobFile(), " --trainer-binary ", noise));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no JSON"));
}

// Parts of the answer may be missing or have other types.
TEST(DescribeTest, OddAnswersDoNotCrash) {
  for (const char* answer :
       {"{}", R"({"layers": 3, "memory": [1, "x"], "assumptions": {"a": 1}})",
        R"({"layers": [[], 5, {"name": 5, "path": null}], "step": "soon"})"}) {
    const std::string trainer =
        Script("odd", absl::StrCat("echo '", answer, "'"));
    EXPECT_EQ(RunVerb(absl::StrCat("describe ", JobFile(), " --trainer-binary ",
                                   trainer))
                  .code,
              0);
  }
}

TEST(RunProgramTest, OutputErrorAndEnd) {
  const std::string program =
      Script("program", "echo out; echo err >&2; cat; exit 3");
  ASSERT_OK_AND_ASSIGN(const ProgramOutput output, RunProgram({program}));
  EXPECT_EQ(output.out, "out\n");
  EXPECT_EQ(output.err, "err\n");
  EXPECT_EQ(output.exit_code, 3);
  ASSERT_OK_AND_ASSIGN(const ProgramOutput killed,
                       RunProgram({Script("killed", "kill -9 $$")}));
  EXPECT_EQ(killed.exit_code, 128 + 9);
  EXPECT_THAT(RunProgram({"/nonexistent"}),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera::client
