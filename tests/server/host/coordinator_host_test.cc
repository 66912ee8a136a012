// What the host adds to the coordinator: nothing is told before it is stored.
#include "server/host/coordinator_host.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "common/status_matchers.h"
#include "tests/server/prepared_test_job.h"
#include "tests/server/sequential_ids.h"
#include "tests/server/store/fake_job_store.h"
#include "tests/server/temp_dir.h"
#include "tests/server/test_spec.h"

namespace comera::server {
namespace {

class CoordinatorHostTest : public ::testing::Test {
 protected:
  void Start() {
    CoordinatorHost::Options options;
    options.data_dir = folder_.path();
    options.tick_interval = absl::InfiniteDuration();
    auto host = CoordinatorHost::Start(
        options, &store_, &ids_, Clock::Real(),
        [this](const absl::Status& status) { failure_.set_value(status); });
    ASSERT_OK(host);
    host_ = *std::move(host);
  }

  absl::StatusOr<v1::Job> Create() {
    auto result = std::make_shared<std::promise<absl::StatusOr<v1::Job>>>();
    host_->CreateJob(PreparedTestJob(TestSpec(1)),
                     [result](absl::StatusOr<v1::Job> job) {
                       result->set_value(std::move(job));
                     });
    return result->get_future().get();
  }

  absl::StatusOr<v1::Job> Get(const std::string& name) {
    auto result = std::make_shared<std::promise<absl::StatusOr<v1::Job>>>();
    host_->GetJob(name, [result](absl::StatusOr<v1::Job> job) {
      result->set_value(std::move(job));
    });
    return result->get_future().get();
  }

  TempDir folder_;
  FakeJobStore store_;
  SequentialIds ids_;
  std::promise<absl::Status> failure_;
  std::unique_ptr<CoordinatorHost> host_;
};

TEST_F(CoordinatorHostTest, AcceptedJobIsStoredAndLoadedAgain) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Job job, Create());
  EXPECT_EQ(store_.LoadJobs()->at(0).job().name(), job.name());
  host_.reset();
  Start();
  EXPECT_EQ(Get(job.name())->state(), v1::QUEUED);
}

TEST_F(CoordinatorHostTest, WhatCannotBeStoredIsNotTold) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Job before, Create());
  store_.FailCommits(absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kUnavailable,
                                 ::testing::HasSubstr("disk full")));
  EXPECT_THAT(failure_.get_future().get(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(Get(before.name()));
  EXPECT_THAT(Get("jobs/baaaaaaaaaaa"), StatusIs(absl::StatusCode::kNotFound));
  // A fresh start has what was accepted, and nothing else.
  host_.reset();
  store_.FailCommits(absl::OkStatus());
  failure_ = {};
  Start();
  EXPECT_EQ(store_.LoadJobs()->size(), 1u);
  EXPECT_OK(Create());
}

// Calls every entry point from many threads, also while the host stops, for
// ThreadSanitizer to watch.
TEST_F(CoordinatorHostTest, ManyThreads) {
  Start();
  constexpr int kThreads = 4, kRounds = 25;
  std::vector<std::thread> threads;
  std::atomic<int> answers{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string worker = "w" + std::to_string(t);
      for (int i = 0; i < kRounds; ++i) {
        const absl::StatusOr<v1::Job> job = Create();
        if (job.ok()) {
          EXPECT_OK(Get(job->name()));
          host_->CancelJob(job->name(), "", [&](const auto&) { ++answers; });
        }
        v1::SynchronizeRequest request;
        request.set_worker(worker);
        request.set_incarnation("i");
        request.add_slots()->set_device(v1::ResourceSpec::CPU);
        request.mutable_hold()->set_seconds(i % 2);
        v1::LogChunk* log = request.add_logs();
        log->set_job(job.ok() ? job->name() : "jobs/none");
        log->set_attempt(1);
        log->set_data("line\n");
        const int64_t call =
            host_->Synchronize(request, [&](const auto&) { ++answers; });
        if (i % 3 == 0) host_->Abandon(call);
        if (t == 0) host_->TickNow();
        if (t == 1 && i == kRounds - 1) host_->Stop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Ends what is still on its way: every call is answered, once.
  host_.reset();
  EXPECT_GE(answers, kThreads * kRounds);
  EXPECT_LE(answers, 2 * kThreads * kRounds);
}

TEST_F(CoordinatorHostTest, StoppedHostAnswersUnavailable) {
  Start();
  host_->Stop();
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace comera::server
