// Checks every verb with -o json: standard output is JSON or empty in all
// cases, and messages for people go to standard error.
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/main/cli.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/daemon/comera_server.h"

namespace comera::client {
namespace {

constexpr char kJobFile[] = R"(
model: {family: MASKED_LM, layers: 2, hidden: 64, heads: 4}
data:
  code_directory: {roots: [/usr/include], globs: ["*.h"]}
  tokenizer: {kind: BYTE_BPE, train_vocabulary_size: 1000}
  max_length: 32
compression: {method: DENSE}
objective: {early: {steps: 10}}
training: {batch_size: 8}
resources: {device: CPU, processes: 1}
)";

// Verbs that print no result, or one that is not a message.
const std::set<std::string>& Others() {
  static const auto* verbs = new std::set<std::string>{
      // Starts a cluster of its own; its events are those of watch.
      "run",
      // Print texts for people.
      "help",
      // Prints a script for a shell.
      "completion",
      // Prints the log as the member wrote it.
      "logs",
  };
  return *verbs;
}

bool IsJson(const std::string& text) {
  if (nlohmann::json::accept(text)) return true;
  // Streams have one value per line.
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (!nlohmann::json::accept(std::string(line))) return false;
  }
  return true;
}

class JsonOutputTest : public ::testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out;
    std::string err;
  };

  JsonOutputTest() {
    folder_ = ::testing::TempDir() + "/json-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    EXPECT_OK(WriteFileAtomically(folder_ + "/job.yaml", kJobFile));
    EXPECT_OK(WriteFileAtomically(folder_ + "/bad.yaml", "model: [oops\n"));
    server::ComeraServer::Options options;
    options.data_dir = folder_ + "/server";
    auto server = server::ComeraServer::Start(options, Clock::Real(), &ids_,
                                              [](const absl::Status&) {});
    EXPECT_OK(server);
    server_ = *std::move(server);
  }

  Outcome Run(const std::string& arguments, const std::string& server) {
    std::ostringstream out, err;
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.server = server;
    environment.working_folder = folder_;
    environment.state_folder = folder_ + "/state";
    environment.config_file = folder_ + "/login.json";
    environment.binary_folder = "/nonexistent";
    Outcome outcome;
    outcome.code =
        RunCli(absl::StrSplit(arguments, ' ', absl::SkipEmpty()), environment);
    outcome.out = out.str();
    outcome.err = err.str();
    return outcome;
  }
  Outcome Run(const std::string& arguments) {
    return Run(arguments, server_->address());
  }

  // The verbs that help lists.
  std::vector<std::string> Verbs() {
    std::vector<std::string> verbs;
    bool below = false;
    for (absl::string_view line : absl::StrSplit(Run("--help").out, '\n')) {
      if (line == "Subcommands:") {
        below = true;
      } else if (below && absl::ConsumePrefix(&line, "  ") && !line.empty() &&
                 line[0] != ' ') {
        verbs.emplace_back(line.substr(0, line.find(' ')));
      }
    }
    return verbs;
  }

  std::string folder_;
  server::RandomIdSource ids_;
  std::unique_ptr<server::ComeraServer> server_;
};

TEST_F(JsonOutputTest, Complaint22_StandardOutputIsJsonAlone) {
  const Outcome submitted = Run("-o json submit " + folder_ + "/job.yaml");
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  ASSERT_TRUE(nlohmann::json::accept(submitted.out)) << submitted.out;
  const std::string job =
      nlohmann::json::parse(submitted.out)["name"].get<std::string>();
  // Verbs that succeed print JSON.
  const std::string file = folder_ + "/job.yaml";
  const std::vector<std::string> commands = {
      "validate " + file,
      "ls",
      "get " + job,
      "models " + job,
      "cancel " + job,
      "wait " + job,
      "watch " + job,
      "version",
      "whoami",
      "audit",
      "token list",
      "login",
      "token create --name root --role admin"};
  for (const std::string& command : commands) {
    for (const char* const flags : {"-o json ", "-v -o json "}) {
      const Outcome outcome = Run(flags + command);
      EXPECT_FALSE(outcome.out.empty()) << command << "\n" << outcome.err;
      EXPECT_TRUE(IsJson(outcome.out)) << command << "\n" << outcome.out;
      // Its first token closes the server to anonymous callers.
      if (absl::StrContains(command, "token create")) break;
    }
  }
}

TEST_F(JsonOutputTest, Complaint22_ErrorsLeaveStandardOutputEmpty) {
  const std::vector<std::string> verbs = Verbs();
  ASSERT_GE(verbs.size(), 17u);
  for (const std::string& verb : verbs) {
    if (Others().count(verb) > 0) continue;
    // Calls each verb without its arguments, and where nothing listens. Names
    // that do not exist are asked of a real server, because watching retries
    // for minutes to reach one.
    const std::string missing = absl::StrCat(verb, " no-such-thing");
    const std::vector<std::string> calls = {
        verb, missing, absl::StrCat(verb, " ", folder_, "/bad.yaml"),
        absl::StrCat(verb, " --no-such-flag")};
    for (const std::string& arguments : calls) {
      const Outcome outcome =
          arguments == missing
              ? Run("-o json " + arguments)
              : Run("-o json --timeout 50ms " + arguments, "127.0.0.1:1");
      EXPECT_TRUE(IsJson(outcome.out)) << arguments << "\n" << outcome.out;
      if (outcome.code != 0 && outcome.code < 100) {
        EXPECT_EQ(outcome.out, "") << arguments;
        EXPECT_NE(outcome.err, "") << arguments;
      }
    }
  }
}

}  // namespace
}  // namespace comera::client
