// Two coordinators on one PostgreSQL, kill -9 or SIGSTOP of the leader while a
// job trains: the other takes over, and the job trains on.
#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/job_file.h"
#include "client/training_client.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"
#include "tests/server/store/postgres_server.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kBound = absl::Seconds(120);
// A lease of five seconds, and a start.
constexpr absl::Duration kFailOver = absl::Seconds(10);
// Calls wait for a stopped coordinator until their channel finds it dead.
constexpr absl::Duration kFailOverOfStopped = absl::Seconds(30);

class FailOverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    database_ = server::PostgresServer::Shared();
    if (database_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = database_->NewDatabase();
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/fail_over_",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK_AND_ASSIGN(job_, WriteTinyJob(folder_));
    // The first one to start leads.
    for (int i = 0; i < 2; ++i) StartServer(i);
    worker_ = std::make_unique<Process>(
        std::vector<std::string>{
            Binary("worker/comera-worker"), absl::StrCat("--server=", Both()),
            "--name=w1", "--slots=2",
            absl::StrCat("--data_dir=", folder_, "/worker"),
            absl::StrCat("--data_root=", folder_),
            absl::StrCat("--trainer=",
                         Binary("worker/trainer/comera-trainer"))},
        folder_ + "/worker.log");
  }

  void StartServer(int i) {
    const std::string port = absl::StrCat("port", i);
    servers_.push_back(std::make_unique<Process>(
        std::vector<std::string>{
            Binary("server/comera-server"), "--listen=127.0.0.1:0",
            absl::StrCat("--store=", url_),
            // Shared, so that logs and models survive the fail-over.
            absl::StrCat("--data_dir=", folder_, "/data"),
            absl::StrCat("--port_file=", folder_, "/", port)},
        absl::StrCat(folder_, "/server", i, ".log")));
    ASSERT_TRUE(WaitForFile(folder_, port, kBound));
    ASSERT_OK_AND_ASSIGN(const std::string address,
                         ReadFile(absl::StrCat(folder_, "/", port)));
    addresses_.push_back(address);
  }

  // Signals the leader while a job trains, and lets it go on, if it can, once
  // another one leads.
  void TrainThrough(int signal, absl::Duration bound);

  std::string Both() const {
    return absl::StrCat(addresses_[0], ",", addresses_[1]);
  }

  server::PostgresServer* database_ = nullptr;
  std::string url_, folder_, job_;
  std::vector<std::unique_ptr<Process>> servers_;
  std::vector<std::string> addresses_;
  std::unique_ptr<Process> worker_;
};

void FailOverTest::TrainThrough(int signal, absl::Duration bound) {
  const auto client = client::TrainingClient::Connect(Both(), {});
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, client::ReadJobFile(job_));
  client::TrainingClient::SubmitOptions once;
  once.request_id = "once";
  ASSERT_OK_AND_ASSIGN(const v1::Job job, client->Submit(spec, once));

  std::map<int64_t, int> runs;
  int64_t last_sequence = 0, trained = 0;
  bool killed = false;
  absl::Duration fail_over;
  const auto on_event = [&](const v1::JobEvent& event) {
    EXPECT_GT(event.sequence(), last_sequence) << "an event came twice";
    last_sequence = event.sequence();
    if (event.has_run_info()) ++runs[event.attempt()];
    if (event.has_metrics()) ++trained;
    if (killed || trained < 3) return;
    killed = true;
    ASSERT_EQ(::kill(servers_[0]->pid(), signal), 0);
    const absl::Time begin = absl::Now();
    // Repeats a submission as if the answer had been lost; the new leader knows
    // it.
    const auto again = client->Submit(spec, once);
    fail_over = absl::Now() - begin;
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->name(), job.name());
    ::kill(servers_[0]->pid(), SIGCONT);
  };
  ASSERT_OK_AND_ASSIGN(const v1::Job end,
                       client->Watch(job.name(), {}, {}, on_event));
  EXPECT_TRUE(killed);
  EXPECT_LT(fail_over, bound);
  RecordProperty("fail_over_ms", absl::ToInt64Milliseconds(fail_over));
  std::cout << "fail-over took " << fail_over << std::endl;
  EXPECT_EQ(end.state(), v1::SUCCEEDED);
  EXPECT_EQ(end.outcome(), v1::TARGET_MET);
  // The same attempt continued.
  EXPECT_EQ(runs, (std::map<int64_t, int>{{1, 1}}));
  ASSERT_OK_AND_ASSIGN(const auto all, client->List({}, 0));
  EXPECT_EQ(all.size(), 1u);
  std::string log;
  EXPECT_OK(client->ReadLog(job.name(), {},
                            [&](const std::string& text) { log += text; }));
  EXPECT_FALSE(log.empty());
}

TEST_F(FailOverTest, TheOtherCoordinatorTakesOverAndTheJobTrainsOn) {
  TrainThrough(SIGKILL, kFailOver);
}

TEST_F(FailOverTest, AStoppedLeaderIsReplacedAndStopsNoMember) {
  TrainThrough(SIGSTOP, kFailOverOfStopped);
  // It follows now, and passes on what only the leader knows.
  client::TrainingClient::Options options;
  options.timeout = kFailOver;
  const auto client = client::TrainingClient::Connect(addresses_[0], options);
  ASSERT_OK_AND_ASSIGN(const auto workers, client->ListWorkers());
  EXPECT_EQ(workers.size(), 1u);
}

}  // namespace
}  // namespace comera::e2e
