// A gang with one member on each of two workers: the members meet over the
// addresses of their workers and train to the end, also when a worker's daemon
// is killed and restarted meanwhile.
#include <signal.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
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
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
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

  // Members that a failed test leaves end soon.
  std::unique_ptr<Process> StartWorker(const std::string& name,
                                       const std::string& address,
                                       const std::string& lease = "30s") {
    return std::make_unique<Process>(
        std::vector<std::string>{
            Binary("worker/comera-worker"), absl::StrCat("--server=", address_),
            absl::StrCat("--name=", name), absl::StrCat("--address=", address),
            "--slots=1", absl::StrCat("--member_lease=", lease),
            absl::StrCat("--data_dir=", folder_, "/", name),
            absl::StrCat("--data_root=", folder_),
            absl::StrCat("--trainer=",
                         Binary("worker/trainer/comera-trainer"))},
        absl::StrCat(folder_, "/", name, ".log"));
  }

  // Submits a job of so many steps and watches it.
  std::unique_ptr<Process> Submit(int steps) {
    return std::make_unique<Process>(
        std::vector<std::string>{Binary("client/comera"), "submit", job_,
                                 "--watch", "-o", "json", "--server", address_,
                                 "--set",
                                 absl::StrCat("objective.early.steps=", steps),
                                 "--set", "objective.late.target_loss=5.9",
                                 "--set", "objective.late.target_ratio=1"},
        folder_ + "/client.log");
  }

  static bool IsMember0(pid_t pid) {
    const auto environment = ReadFile(absl::StrCat("/proc/", pid, "/environ"));
    return environment.ok() &&
           absl::StrContains(*environment, std::string("\0RANK=0\0", 8));
  }

  // The logs of members below a daemon's folder.
  std::set<std::string> LogsBelow(const std::string& folder) const {
    std::set<std::string> logs;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             folder_ + "/" + folder, error)) {
      if (entry.path().extension() != ".log") continue;
      const auto text = ReadFile(entry.path().string());
      if (text.ok()) logs.insert(*text);
    }
    return logs;
  }

  // Whether a member's folder has a training state. Daemons that run may remove
  // folders meanwhile, where the search ends.
  bool HasState() const {
    std::error_code vanished;
    const std::filesystem::recursive_directory_iterator end{};
    std::filesystem::recursive_directory_iterator entry(folder_, vanished);
    for (; !vanished && entry != end; entry.increment(vanished)) {
      if (absl::StrContains(entry->path().string(), "/work/checkpoints/")) {
        return true;
      }
    }
    return false;
  }

  std::string folder_, job_, address_;
  std::unique_ptr<Process> server_, first_, second_;
};

TEST_F(TwoWorkersTest, AGangAcrossWorkersTrainsToTheEnd) {
  const std::unique_ptr<Process> client = Submit(60);
  bool trained = false;
  std::string outcome;
  while (const auto line = client->ReadLine(kBound)) {
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
  EXPECT_EQ(client->Wait(kBound), 0);
  EXPECT_TRUE(trained);
  EXPECT_EQ(outcome, "TARGET_MET");
}

// The worker's first daemon ever is killed; it has member 0, so that whatever
// is told of the training afterwards comes from the next one.
TEST_F(TwoWorkersTest, AKilledDaemonsMemberGoesOnUnderTheNextDaemon) {
  const std::unique_ptr<Process> client = Submit(800);
  std::vector<pid_t> members;
  std::set<int64_t> sequences;
  std::string job, outcome;
  int64_t last_step = 0;
  int runs = 0;
  absl::Time restarted = absl::InfiniteFuture();
  // The tenths of a second after the restart in which something was told: a
  // worker makes at most one call in each.
  std::set<int64_t> told;
  while (const auto line = client->ReadLine(kBound)) {
    const Json event = Json::parse(*line, nullptr, false);
    ASSERT_TRUE(event.is_object()) << *line;
    if (event.contains("sequence")) {
      // A queued job has no attempt yet.
      EXPECT_EQ(event.value("attempt", 1), 1) << *line;
      EXPECT_TRUE(sequences.insert(event["sequence"].get<int64_t>()).second)
          << *line;
      job = event.value("job", job);
    }
    EXPECT_FALSE(event.contains("incident")) << *line;
    runs += event.contains("run_info") ? 1 : 0;
    if (event.contains("state_change")) {
      outcome = event["state_change"].value("outcome", "");
    }
    if (!event.contains("metrics")) continue;
    const int64_t step = event["metrics"].value("step", int64_t{0});
    // A state may be told a second time with the figures of a validation, but
    // none before it.
    EXPECT_GE(step, last_step) << *line;
    last_step = step;
    if (restarted != absl::InfiniteFuture()) {
      told.insert(absl::ToInt64Milliseconds(absl::Now() - restarted) / 100);
      continue;
    }
    for (const Process* worker : {first_.get(), second_.get()}) {
      for (pid_t pid : Children(worker->pid(), "comera-trainer")) {
        members.push_back(pid);
      }
    }
    ASSERT_EQ(members.size(), 2u);
    const bool on_first = IsMember0(members[0]);
    ASSERT_TRUE(on_first || IsMember0(members[1]));
    std::unique_ptr<Process>& worker = on_first ? first_ : second_;
    ASSERT_EQ(::kill(worker->pid(), SIGKILL), 0);
    ASSERT_EQ(worker->Wait(kBound), 128 + SIGKILL);
    EXPECT_EQ(::kill(members[on_first ? 0 : 1], 0), 0);
    worker = on_first ? StartWorker("first", "127.0.0.2")
                      : StartWorker("second", "127.0.0.3");
    restarted = absl::Now();
  }
  EXPECT_EQ(client->Wait(kBound), 0);
  EXPECT_GT(told.size(), 2u);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(outcome, "TARGET_MET");
  for (pid_t pid : members) EXPECT_TRUE(WaitUntilGone(pid, kBound));
  std::string logs;
  for (const char* name : {"/first.log", "/second.log"}) {
    ASSERT_OK_AND_ASSIGN(const std::string log, ReadFile(folder_ + name));
    logs += log;
  }
  EXPECT_TRUE(absl::StrContains(logs, "member adopted")) << logs;
  Process download(
      {Binary("client/comera"), "models", job.substr(job.find('/') + 1),
       "--download", folder_ + "/model", "--server", address_},
      folder_ + "/download.log");
  EXPECT_EQ(download.Wait(kBound), 0);
  EXPECT_OK(ReadFile(folder_ + "/model/model.safetensors"));
}

TEST_F(TwoWorkersTest, MembersOfADaemonThatStaysAwaySaveAndEnd) {
  ASSERT_EQ(::kill(first_->pid(), SIGKILL), 0);
  EXPECT_EQ(first_->Wait(kBound), 128 + SIGKILL);
  // Longer than the orderly end of a daemon takes on a busy machine.
  first_ = StartWorker("first", "127.0.0.2", /*lease=*/"8s");
  const std::unique_ptr<Process> client = Submit(1000000);
  std::vector<pid_t> members;
  while (members.empty()) {
    const auto line = client->ReadLine(kBound);
    ASSERT_TRUE(line.has_value());
    const Json event = Json::parse(*line, nullptr, false);
    if (!event.is_object() || !event.contains("metrics")) continue;
    members = Children(first_->pid(), "comera-trainer");
  }
  // An orderly end leaves it, too.
  ASSERT_EQ(::kill(first_->pid(), SIGTERM), 0);
  EXPECT_EQ(first_->Wait(kBound), 0);
  EXPECT_EQ(::kill(members[0], 0), 0);
  EXPECT_TRUE(WaitUntilGone(members[0], kBound));
  const std::set<std::string> logs = LogsBelow("first/jobs");
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_TRUE(absl::StrContains(*logs.begin(), "saving the state and ending"))
      << *logs.begin();
  // The gang stopped after the same step, and member 0 saves it, which may be
  // the other daemon's and not be done yet.
  const absl::Time deadline = absl::Now() + kBound;
  bool saved = HasState();
  for (; !saved && absl::Now() < deadline; saved = HasState()) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(saved);
}

}  // namespace
}  // namespace comera::e2e
