// A search with real processes: `comera run` of a job with `method: auto` stops
// candidates, lets the others go on from their checkpoints, and leaves the
// model that it chose.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr absl::Duration kBound = absl::Seconds(120);

// A candidate's training takes seconds, far longer than a pause takes to reach
// it: one that ends before its pause cannot be stopped.
std::string JobFile(const std::string& corpus) {
  return absl::StrCat(R"(display_name: e2e
model: {family: masked_lm, layers: 1, hidden: 32, heads: 2}
data:
  code_directory: {roots: [")",
                      corpus, R"("], globs: ["*.py"], validation_fraction: 0.1}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 400}
  max_length: 48
compression: {method: auto}
objective:
  late: {target_parameters: 20000}
budget: {steps: 2880}
training: {batch_size: 32, seed: 1, report_every_steps: 5, validate_every_steps: 10, validation_samples: 64}
resources: {device: cpu, threads_per_process: 1}
sweep:
  search: {candidates: 4, methods: [comera, dense]}
)");
}

TEST(AutoTest, ASearchEndsWithTheModelThatItChose) {
  const std::string folder = ::testing::TempDir() + "/auto";
  ASSERT_OK(WriteTinyCorpus(folder + "/corpus"));
  const std::string file = folder + "/auto.yaml";
  ASSERT_OK(WriteFileAtomically(file, JobFile(folder + "/corpus")));
  Process client(
      {Binary("client/comera"), "run", file, "-o", "json",
       absl::StrCat("--data-dir=", folder, "/state"),
       absl::StrCat("--model-dir=", folder, "/model"),
       absl::StrCat("--server-binary=", Binary("server/comera-server")),
       absl::StrCat("--worker-binary=", Binary("worker/comera-worker")),
       absl::StrCat("--trainer-binary=",
                    Binary("worker/trainer/comera-trainer"))},
      folder + "/client.log");
  Json last_change, search;
  std::vector<Json> runs;
  bool paused = false;
  while (const auto line = client.ReadLine(kBound)) {
    const Json event = Json::parse(*line, nullptr, false);
    ASSERT_FALSE(event.is_discarded()) << *line;
    if (event.contains("runs")) {
      runs = event["runs"].get<std::vector<Json>>();
    }
    if (event.contains("search")) search = event["search"];
    if (event.contains("state_change")) last_change = event["state_change"];
    if (!event.contains("run")) continue;
    const Json& run = event["run"];
    paused = paused || run.value("job_state", "") == "PAUSED";
    const size_t index = run.value("index", 0);
    if (index < runs.size()) runs[index] = run;
  }
  EXPECT_EQ(client.Wait(kBound).value_or(-1), 0);
  ASSERT_TRUE(last_change.is_object());
  EXPECT_EQ(last_change["state"], "SUCCEEDED") << last_change.dump(1);
  EXPECT_EQ(last_change["outcome"], "TARGET_MET") << last_change.dump(1);
  EXPECT_THAT(last_change["reason"].get<std::string>(),
              HasSubstr("others were tried"));
  EXPECT_TRUE(paused);
  int stopped = 0;
  for (const Json& run : runs) {
    if (run.value("state", "") != "SWEEP_RUN_STOPPED") continue;
    ++stopped;
    EXPECT_THAT(run.value("reason", ""), HasSubstr("stopped: "));
  }
  EXPECT_GT(stopped, 0);
  ASSERT_TRUE(search.contains("chosen_run")) << search.dump(1);
  const Json& chosen = runs[search["chosen_run"].get<size_t>()];
  EXPECT_LE(chosen["progress"]["size_parameters"].get<int64_t>(), 20000);
  EXPECT_OK(ReadFile(folder + "/model/model.safetensors"));
}

}  // namespace
}  // namespace comera::e2e
