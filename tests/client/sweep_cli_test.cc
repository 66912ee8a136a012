// Checks comera sweep and comera pareto, as far as they work without a server.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/main/cli.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome RunComera(const std::string& args) {
  std::ostringstream out, err;
  Environment environment;
  environment.out = &out;
  environment.err = &err;
  // Nothing listens there.
  environment.server = "127.0.0.1:1";
  const std::vector<std::string> split =
      absl::StrSplit(args, ' ', absl::SkipEmpty());
  const int code = RunCli(split, environment);
  return {code, out.str(), err.str()};
}

std::string Write(const std::string& contents) {
  const std::string path =
      absl::StrCat(std::getenv("TEST_TMPDIR"), "/sweep.yaml");
  std::ofstream(path) << contents;
  return path;
}

TEST(SweepCliTest, UsageErrorsAre2) {
  for (const auto& [args, said] :
       std::vector<std::pair<std::string, std::string>>{
           {"sweep", "what is required"},
           {"sweep get", "comera sweep get needs a sweep"},
           {"sweep watch Not_An_Id", "is no sweep id"},
           {"sweep ls extra", "unexpected argument `extra`"},
           {"sweep ls --limit -1", "must not be negative"},
           {"pareto", "names is required"},
           {"pareto a_b", "is no sweep id"},
           {"pareto jobs/a_b", "is no job id"},
           {"pareto a --reference 6", "--reference must be"},
           {"pareto a --reference 6,-1", "--reference must be"}}) {
    const Outcome outcome = RunComera(args);
    EXPECT_EQ(outcome.code, 2) << args << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << args;
    EXPECT_THAT(outcome.err, HasSubstr(said)) << args;
  }
}

TEST(SweepCliTest, BadFilesAreNamedBeforeAnythingIsSent) {
  for (const auto& [contents, said] :
       std::vector<std::pair<std::string, std::string>>{
           {"model: {layers: 2}\n", "a sweep file is a job file with"},
           {"sweep: {grid: {sedes: [1]}}\n", "grid.sedes: unknown field"},
           {"sweep: {grid: {seeds: [1, 2]}}\nmodel: {layers: 2}\n",
            "job.model.family: "},
           {"sweep: {}\nmodel: {layers: 2}\n",
            "grid: exactly one of grid, list and random"}}) {
    const Outcome outcome = RunComera(absl::StrCat("sweep ", Write(contents)));
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(said)) << outcome.err;
  }
  EXPECT_EQ(RunComera("sweep /nonexistent.yaml").code, 1);
}

TEST(SweepCliTest, AServerThatIsNotThereIs3) {
  for (const char* args :
       {"sweep ls --timeout 100ms", "sweep get a --timeout 100ms",
        "sweep cancel a --timeout 100ms", "pareto a --timeout 100ms"}) {
    const Outcome outcome = RunComera(args);
    EXPECT_EQ(outcome.code, 3) << args << outcome.err;
    EXPECT_EQ(outcome.out, "") << args;
  }
}

TEST(SweepCliTest, HelpShowsExamples) {
  EXPECT_THAT(RunComera("sweep --help").out,
              HasSubstr("comera sweep sweep.yaml --watch"));
  EXPECT_THAT(RunComera("pareto --help").out, HasSubstr("--svg front.svg"));
}

}  // namespace
}  // namespace comera::client
