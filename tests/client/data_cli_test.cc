// Checks comera data prepare against a program in place of comera-trainer: the
// request that it gets, and how its progress, result and errors are shown.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/main/cli.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_matchers.h"
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

class DataCliTest : public ::testing::Test {
 protected:
  DataCliTest() : folder_(::testing::TempDir() + "/data_cli") {
    std::filesystem::create_directories(folder_);
  }

  // Writes the program that is run: a script that keeps its request.
  void Program(const std::string& script) {
    const std::string path = folder_ + "/trainer";
    std::ofstream(path) << "#!/bin/sh\ncp \"${1#--prepare-data=}\" " << folder_
                        << "/request\n"
                        << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  Outcome Run(std::vector<std::string> args) {
    args.insert(args.begin(), {"data", "prepare"});
    args.insert(args.end(), {"--trainer-binary", folder_ + "/trainer"});
    std::ostringstream out, err;
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.working_folder = "/work";
    const int code = RunCli(args, environment);
    return {code, out.str(), err.str()};
  }
  nlohmann::json Request() {
    return ParseJson(*ReadFile(folder_ + "/request"));
  }

  const std::string folder_;
};

TEST_F(DataCliTest, TheResultIsShown) {
  Program(
      "echo '{\"what\": \"tokenising\", \"done_bytes\": 1, \"total_bytes\": "
      "2}'\n"
      "echo '{\"result\": {\"documents\": 1200, \"tokens\": 34567, "
      "\"skipped_rows\": 2, \"skipped\": \"2 malformed rows skipped\"}}'\n");
  const Outcome outcome =
      Run({"a.jsonl", "/b/*.txt", "--to", "out", "--vocabulary", "1000",
           "--field", "body", "--max-bad-rows", "5", "--deduplicate"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1,200"));
  EXPECT_THAT(outcome.out, HasSubstr("34,567"));
  EXPECT_THAT(outcome.err, HasSubstr("2 malformed rows skipped"));
  const nlohmann::json expected = {{"sources", {"/work/a.jsonl", "/b/*.txt"}},
                                   {"to", "/work/out"},
                                   {"max_bad_rows", 5},
                                   {"deduplicate", true},
                                   {"force", false},
                                   {"field", "body"},
                                   {"kind", "byte_bpe"},
                                   {"vocabulary", 1000}};
  EXPECT_EQ(Request(), expected);
  const Outcome json =
      Run({"a", "--to", "o", "--tokenizer", "t", "-o", "json"});
  EXPECT_EQ(ParseJson(json.out)["tokens"], 34567);
  EXPECT_EQ(Request()["tokenizer"], "/work/t");
}

TEST_F(DataCliTest, ErrorsAreTheLastLine) {
  Program(
      "echo 'W2026 bad_rows.cc:1] event=row_skipped' >&2\n"
      "echo 'comera-trainer: a.txt:3: not UTF-8' >&2\nexit 1\n");
  const Outcome outcome = Run({"a.txt", "--to", "o", "--tokenizer", "t"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("a.txt:3: not UTF-8"));
  EXPECT_EQ(outcome.err.find("row_skipped"), std::string::npos);
  Program("kill -9 $$\n");
  EXPECT_THAT(Run({"a.txt", "--to", "o", "--tokenizer", "t"}).err,
              HasSubstr("ended by signal 9"));
  Program("echo nonsense\n");
  EXPECT_THAT(Run({"a.txt", "--to", "o", "--tokenizer", "t"}).err,
              HasSubstr("says no JSON"));
  Program("");
  EXPECT_THAT(Run({"a.txt", "--to", "o", "--tokenizer", "t"}).err,
              HasSubstr("ended without a result"));
}

TEST_F(DataCliTest, BadArguments) {
  Program("");
  const auto refused = [&](const std::vector<std::string>& args,
                           const char* message) {
    const Outcome outcome = Run(args);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  refused({"--to", "o", "--vocabulary", "1000"}, "which files?");
  refused({"a", "--vocabulary", "1000"}, "--to FOLDER is missing");
  refused({"a", "--to", "o"}, "--tokenizer FILE_OR_FOLDER");
  refused({"a", "--to", "o", "--vocabulary", "299"}, "300 to 65536");
  refused({"a", "--to", "o", "--vocabulary", "1000", "--tokenizer", "t"},
          "excludes");
  refused({"-", "--to", "o", "--vocabulary", "1000", "--force"},
          "standard input is read only once");
  refused({"a", "--to", "o", "--kind", "characters", "--vocabulary", "500"},
          "characters have the vocabulary of the text");
  refused({"a", "--to", "o", "--tokenizer", "t", "--format", "csv"},
          "--format is for standard input");
  refused({"a", "--to", "o", "--tokenizer", "t", "--threads", "-1"},
          "--threads");
}

}  // namespace
}  // namespace comera::client
