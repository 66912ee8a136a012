// A gang with one member on each of two workers: the members meet over the
// addresses of their workers and train to the end.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kBound = absl::Seconds(60);
// 127.0.0.2 as /proc/net/tcp writes it. Between two members, Gloo connects to
// the lower address. The default, 127.0.0.1, would not prove anything.
constexpr char kLowerAddress[] = "0200007F:";

class TwoWorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/two_workers";
    ASSERT_OK_AND_ASSIGN(job_, WriteTinyJob(folder_));
    const std::string port_file = folder_ + "/port";
    server_ = std::make_unique<Process>(
        std::vector<std::string>{Binary("server/comera-server"),
                                 "--listen=127.0.0.1:0",
                                 absl::StrCat("--data_dir=", folder_, "/s"),
                                 absl::StrCat("--port_file=", port_file)},
        folder_ + "/server.log");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(port_file));
    first_ = StartWorker("first", "127.0.0.2");
    second_ = StartWorker("second", "127.0.0.3");
  }

  std::unique_ptr<Process> StartWorker(const std::string& name,
                                       const std::string& address) {
    return std::make_unique<Process>(
        std::vector<std::string>{
            Binary("worker/comera-worker"), absl::StrCat("--server=", address_),
            absl::StrCat("--name=", name), absl::StrCat("--address=", address),
            "--slots=1", absl::StrCat("--data_dir=", folder_, "/", name),
            absl::StrCat("--data_root=", folder_),
            absl::StrCat("--trainer=",
                         Binary("worker/trainer/comera-trainer"))},
        absl::StrCat(folder_, "/", name, ".log"));
  }

  std::string folder_, job_, address_;
  std::unique_ptr<Process> server_, first_, second_;
};

TEST_F(TwoWorkersTest, AGangAcrossWorkersTrainsToTheEnd) {
  Process client(
      {Binary("client/comera"), "submit", job_, "--watch", "-o", "json",
       "--server", address_, "--set", "objective.early.steps=60", "--set",
       "objective.late.target_loss=5.9", "--set",
       "objective.late.target_ratio=1"},
      folder_ + "/client.log");
  bool trained = false;
  std::string outcome;
  while (const auto line = client.ReadLine(kBound)) {
    const Json event = Json::parse(*line, nullptr, false);
    ASSERT_TRUE(event.is_object()) << *line;
    if (event.contains("metrics") && !trained) {
      trained = true;
      EXPECT_EQ(Children(first_->pid(), "comera-trainer").size(), 1u);
      EXPECT_EQ(Children(second_->pid(), "comera-trainer").size(), 1u);
      ASSERT_OK_AND_ASSIGN(const std::string sockets,
                           ReadFile("/proc/net/tcp"));
      EXPECT_TRUE(absl::StrContains(sockets, kLowerAddress)) << sockets;
    }
    if (event.contains("state_change")) {
      outcome = event["state_change"].value("outcome", "");
    }
  }
  EXPECT_EQ(client.Wait(kBound), 0);
  EXPECT_TRUE(trained);
  EXPECT_EQ(outcome, "TARGET_MET");
}

}  // namespace
}  // namespace comera::e2e
