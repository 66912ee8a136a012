// A sweep with real processes: one early stage, and late stages that start from
// its checkpoint and end as whole jobs do.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kBound = absl::Seconds(120);
// Settings of every job.
const char* const kSmall[] = {
    "resources.processes=1", "objective.early.steps=60",
    "objective.late.target_loss=1.5", "objective.late.max_steps=30",
    "training.validate_every_steps=30"};

class SweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/sweep";
    ASSERT_OK_AND_ASSIGN(job_, WriteTinyJob(folder_));
    ASSERT_OK_AND_ASSIGN(const std::string job, ReadFile(job_));
    sweep_ = folder_ + "/sweep.yaml";
    ASSERT_OK(WriteFileAtomically(sweep_, job + R"(
sweep:
  display_name: e2e
  grid:
    targets: [{target_ratio: 0.95}, {target_ratio: 0.8}]
)"));
    server_ = std::make_unique<Process>(
        std::vector<std::string>{
            Binary("server/comera-server"), "--listen=127.0.0.1:0",
            absl::StrCat("--data_dir=", folder_, "/s"),
            absl::StrCat("--port_file=", folder_, "/port")},
        folder_ + "/server.log");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(folder_ + "/port"));
    // Late stages run side by side, each on a worker of its own, so that the
    // second has to fetch the checkpoint.
    for (const char* name : {"first", "second"}) {
      workers_.push_back(std::make_unique<Process>(
          std::vector<std::string>{
              Binary("worker/comera-worker"),
              absl::StrCat("--server=", address_),
              absl::StrCat("--name=", name), "--slots=1",
              absl::StrCat("--data_dir=", folder_, "/", name),
              absl::StrCat("--data_root=", folder_),
              absl::StrCat("--trainer=",
                           Binary("worker/trainer/comera-trainer"))},
          absl::StrCat(folder_, "/", name, ".log")));
    }
  }

  // Runs `comera` and returns its lines of JSON.
  std::vector<Json> Client(std::vector<std::string> args, int* code) {
    args.insert(args.begin(), Binary("client/comera"));
    for (const char* more : {"-o", "json", "--server"}) args.push_back(more);
    args.push_back(address_);
    Process client(args, folder_ + "/client.log");
    std::vector<Json> lines;
    std::string text;
    while (const auto line = client.ReadLine(kBound)) {
      absl::StrAppend(&text, *line, "\n");
      Json json = Json::parse(text, nullptr, false);
      if (json.is_discarded()) continue;
      lines.push_back(std::move(json));
      text.clear();
    }
    EXPECT_EQ(text, "");
    *code = client.Wait(kBound).value_or(-1);
    return lines;
  }

  static void AddSmall(std::vector<std::string>* args) {
    for (const char* assignment : kSmall) {
      args->push_back("--set");
      args->push_back(assignment);
    }
  }

  std::string folder_, job_, sweep_, address_;
  std::unique_ptr<Process> server_;
  std::vector<std::unique_ptr<Process>> workers_;
};

TEST_F(SweepTest, Complaint20_ASweepEndsWithItsFrontAndForksAreExact) {
  int code = -1;
  std::vector<std::string> args = {"sweep", sweep_, "--watch"};
  AddSmall(&args);
  const std::vector<Json> events = Client(args, &code);
  // The target loss is out of reach.
  EXPECT_EQ(code, 104);
  ASSERT_FALSE(events.empty());
  const std::string name = events.front().value("name", "");
  ASSERT_EQ(name.substr(0, 7), "sweeps/");

  const std::vector<Json> got = Client({"sweep", "get", name}, &code);
  ASSERT_EQ(got.size(), 1u);
  const Json& sweep = got[0];
  EXPECT_EQ(sweep["state"], "SUCCEEDED") << sweep.dump(1);
  ASSERT_EQ(sweep["runs"].size(), 2u);
  ASSERT_EQ(sweep["stages"].size(), 1u);
  EXPECT_GT(sweep["front"]["hypervolume_ratio"].get<double>(), 0);

  const std::vector<Json> front =
      Client({"pareto", name, "--svg", folder_ + "/front.svg"}, &code);
  EXPECT_EQ(code, 0);
  ASSERT_EQ(front.size(), 1u);
  EXPECT_EQ(front[0]["points"], sweep["front"]["points"]);
  ASSERT_OK_AND_ASSIGN(const std::string svg, ReadFile(folder_ + "/front.svg"));
  EXPECT_NE(svg.find("<circle"), std::string::npos);

  // Compares with a single job that trains both stages.
  args = {"submit", job_, "--watch", "--set",
          "objective.late.target_ratio=0.8"};
  AddSmall(&args);
  const std::vector<Json> whole = Client(args, &code);
  Json result;
  for (const Json& event : whole) {
    if (event.contains("result")) result = event["result"];
  }
  ASSERT_TRUE(result.is_object());
  const Json& fork = sweep["runs"][1]["progress"];
  EXPECT_EQ(result["validation_loss"].get<double>(),
            fork["validation_loss"].get<double>());
  EXPECT_EQ(result["size_parameters"], fork["size_parameters"]);
}

}  // namespace
}  // namespace comera::e2e
