#ifndef COMERA_TESTS_WORKER_SESSION_WORKER_SESSION_FIXTURE_H_
#define COMERA_TESTS_WORKER_SESSION_WORKER_SESSION_FIXTURE_H_

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "common/rpc_channel.h"
#include "common/status_matchers.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_gpu_driver.h"
#include "tests/fakes/fake_worker_service.h"
#include "worker/gpu/gpu_watch.h"
#include "worker/session/leader_fence.h"
#include "worker/session/worker_session.h"

namespace comera::worker {

constexpr char kJob[] = "jobs/a";

inline v1::MemberAssignment Assign(const std::string& what, int64_t attempt = 1,
                                   int rank = 0) {
  v1::MemberAssignment assignment;
  assignment.set_job(kJob);
  assignment.set_attempt(attempt);
  assignment.set_rank(rank);
  assignment.set_world_size(2);
  assignment.set_local_world_size(2);
  assignment.set_local_rank(rank);
  assignment.set_slot(rank);
  assignment.mutable_spec()->set_display_name(what);
  return assignment;
}

// A session with a fake coordinator, and members that are processes of the fake
// trainer.
class WorkerSessionTest : public testing::Test {
 protected:
  using State = FakeWorkerService::State;
  using Key = FakeWorkerService::Key;

  WorkerSessionTest() {
    folder_ = testing::TempDir() + "/session-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    options_.worker = "w";
    options_.incarnation = "first";
    options_.slots.resize(2);
    options_.slots[1].set_index(1);
    options_.cores = 2;
    options_.data_dir = folder_;
    options_.trainer = getenv("FAKE_TRAINER");
    options_.processes.grace = absl::Seconds(20);
    options_.min_interval = absl::Milliseconds(1);
    options_.min_backoff = absl::Milliseconds(1);
    options_.max_backoff = absl::Milliseconds(20);
    options_.upload.min_backoff = absl::Milliseconds(1);
    options_.upload.max_backoff = absl::Milliseconds(5);
  }

  ~WorkerSessionTest() override {
    End();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void Create() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 5);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
    ChannelInterceptors interceptors;
    interceptors.push_back(MakeLeaderFence(
        std::make_shared<LeaderFence>(folder_ + "/leader_term")));
    auto channel =
        OpenChannel(service_.address(), {}, arguments, std::move(interceptors));
    ASSERT_OK(channel);
    auto session =
        WorkerSession::Create(options_, *std::move(channel), std::move(gpus_));
    ASSERT_OK(session);
    session_ = *std::move(session);
  }

  // Gives a slot a GPU; the other has none.
  FakeGpuDriver* AddGpu(int slot = 0) {
    auto driver = std::make_unique<FakeGpuDriver>(1);
    FakeGpuDriver* const added = driver.get();
    GpuWatch::Options options;
    options.interval = options.short_interval = absl::Milliseconds(2);
    *options_.slots[slot].mutable_gpu() = driver->gpus()[0];
    options_.slots[slot].set_device(v1::ResourceSpec::GPU);
    gpus_ = std::make_unique<GpuWatch>(options, std::move(driver));
    return added;
  }

  void Run() {
    Create();
    thread_ = std::thread([this] { run_status_ = session_->Run(); });
  }

  // Ends Run if it is running.
  void End() {
    if (!thread_.joinable()) return;
    session_->Stop();
    thread_.join();
  }

  static bool Exited(const State& state, const Key& key) {
    const auto it = state.ranks.find(key);
    return it != state.ranks.end() &&
           it->second.phase() == v1::MemberStatus::EXITED;
  }
  static bool Running(const State& state, const Key& key) {
    const auto it = state.ranks.find(key);
    return it != state.ranks.end() &&
           it->second.phase() == v1::MemberStatus::RUNNING;
  }

  // The newest status of a member of the first attempt.
  v1::MemberStatus StatusOf(int rank) {
    return service_.state().ranks[Key(kJob, 1, rank)];
  }

  std::string folder_;
  FakeWorkerService service_;
  WorkerSession::Options options_;
  std::unique_ptr<GpuWatch> gpus_;
  std::unique_ptr<WorkerSession> session_;
  std::thread thread_;
  absl::Status run_status_;
};

}  // namespace comera::worker

#endif  // COMERA_TESTS_WORKER_SESSION_WORKER_SESSION_FIXTURE_H_
