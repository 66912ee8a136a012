// Runs the session against a fake coordinator, with real fake-trainer
// processes.
#include "worker/session/worker_session.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/rpc_channel.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_gpu_driver.h"
#include "tests/fakes/fake_worker_service.h"
#include "worker/files/plain_file.h"
#include "worker/gang/member_user.h"
#include "worker/report/artifact_store.h"
#include "worker/session/leader_fence.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using State = FakeWorkerService::State;
using Key = FakeWorkerService::Key;

constexpr char kJob[] = "jobs/a";

v1::MemberAssignment Assign(const std::string& what, int64_t attempt = 1,
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

class WorkerSessionTest : public testing::Test {
 protected:
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
    fs::remove_all(folder_, ignored);
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

TEST_F(WorkerSessionTest, IntroducesItself) {
  Create();
  ASSERT_OK(session_->RunOnce());
  const v1::SynchronizeRequest request = service_.state().last;
  EXPECT_EQ(request.worker(), "w");
  EXPECT_EQ(request.incarnation(), "first");
  EXPECT_EQ(request.slots_size(), 2);
  EXPECT_FALSE(request.version().empty());
}

TEST_F(WorkerSessionTest, RunsAGangToItsResult) {
  service_.Want({Assign("succeed", 1, 0), Assign("succeed", 1, 1)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && Exited(state, {kJob, 1, 1});
  }));
  State state = service_.state();
  const v1::MemberStatus rank0 = StatusOf(0);
  EXPECT_FALSE(rank0.has_failure()) << rank0.DebugString();
  EXPECT_EQ(rank0.result().outcome(), v1::COMPLETED);
  EXPECT_GT(rank0.peak_memory_bytes(), 0);
  ASSERT_EQ(rank0.model().files_size(), 2);
  EXPECT_EQ(rank0.model().name(), "jobs/a/models/final");
  EXPECT_EQ(rank0.model().size_parameters(), 42);
  for (const v1::ArtifactFile& file : rank0.model().files()) {
    const std::string name = "jobs/a/models/final/" + file.path();
    EXPECT_EQ(state.files[name].size(), file.size_bytes());
    EXPECT_EQ(Sha256Hex(state.files[name]), file.sha256());
    EXPECT_EQ(state.headers[name].sha256(), file.sha256());
  }
  EXPECT_FALSE(StatusOf(1).has_failure());
  EXPECT_FALSE(StatusOf(1).has_result());
  // The events: stage, run info, three metrics, result.
  EXPECT_EQ(state.reports.size(), 6);
  EXPECT_TRUE(state.reports.back().event().has_result());
  // Once the coordinator has everything, the job's files are removed but its
  // logs stay.
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.last.members_size() == 0; }));
  End();
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/work"));
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/attempt-1"));
  EXPECT_TRUE(fs::exists(folder_ + "/jobs/a/logs/1-0.log"));
  EXPECT_TRUE(fs::is_empty(folder_ + "/ranks"));
}

TEST_F(WorkerSessionTest, BringsTheModelOfEveryTarget) {
  service_.Want({Assign("succeed_twice", 1, 0), Assign("succeed", 1, 1)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  State state = service_.state();
  const v1::MemberStatus rank0 = StatusOf(0);
  EXPECT_EQ(rank0.model().name(), "jobs/a/models/final");
  ASSERT_EQ(rank0.target_models_size(), 2);
  EXPECT_EQ(rank0.target_models(0).name(), "jobs/a/models/target-1");
  EXPECT_EQ(state.files["jobs/a/models/target-1/model.safetensors"], "t");
  EXPECT_EQ(state.files["jobs/a/models/target-2/model.safetensors"], "tt");
  EXPECT_EQ(state.files["jobs/a/models/final/config.json"], "{}");
}

TEST_F(WorkerSessionTest, MembersKnowTheirPlace) {
  service_.Want({Assign("environment", 1, 1)});
  Run();
  const Key key = {kJob, 1, 1};
  ASSERT_TRUE(service_.WaitFor([&](const State& state) {
    const auto log = state.logs.find(key);
    return log != state.logs.end() &&
           log->second.find('\n') != std::string::npos;
  }));
  EXPECT_THAT(service_.state().logs[key],
              HasSubstr("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "
                        "OMP_NUM_THREADS=1"));
}

TEST_F(WorkerSessionTest, AMemberSeesTheGpuOfItsSlotOnly) {
  AddGpu();
  service_.Want({Assign("environment", 1, 0), Assign("environment", 1, 1)});
  Run();
  ASSERT_TRUE(service_.WaitFor([&](const State& state) {
    return Exited(state, {kJob, 1, 0}) && Exited(state, {kJob, 1, 1}) &&
           state.logs.size() == 2;
  }));
  auto logs = service_.state().logs;
  EXPECT_THAT((logs[{kJob, 1, 0}]),
              HasSubstr("CUDA_VISIBLE_DEVICES=GPU-0 device=GPU"));
  EXPECT_THAT((logs[{kJob, 1, 1}]),
              HasSubstr("CUDA_VISIBLE_DEVICES= device=CPU"));
}

TEST_F(WorkerSessionTest, ASlotIsOfferedAgainOnceItsGpuIsFree) {
  FakeGpuDriver* const gpu = AddGpu();
  service_.Want({Assign("wait", 1, 0)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  EXPECT_EQ(service_.state().last.slots(0).unfit(), "");
  GpuReading held;
  held.used_bytes = int64_t{5} << 30;
  gpu->Set(0, held);
  service_.Want({});
  // The member's end is not reported without the GPU's state.
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_THAT(service_.state().last.slots(0).unfit(),
              HasSubstr("not seen to be free yet"));
  EXPECT_EQ(service_.state().last.slots(1).unfit(), "");
  gpu->Set(0, GpuReading());
  EXPECT_TRUE(service_.WaitFor(
      [](const State& state) { return state.last.slots(0).unfit().empty(); }));
}

TEST_F(WorkerSessionTest, NoMemberStartsOnAnUnfitGpu) {
  FakeGpuDriver* const gpu = AddGpu();
  GpuReading broken;
  broken.uncorrected_ecc = 1;
  gpu->Set(0, broken);
  service_.Want({Assign("succeed", 1, 0)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_EQ(StatusOf(0).failure().failure_class(), v1::RANK_LOST);
  EXPECT_THAT(StatusOf(0).failure().message(),
              HasSubstr("1 uncorrected memory errors"));
}

TEST_F(WorkerSessionTest, AMemberThatCannotBeRecordedLeavesItsGpu) {
  AddGpu();
  // No file can be made in it.
  std::ofstream(folder_ + "/ranks") << "no folder";
  service_.Want({Assign("wait", 1, 0)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  fs::remove(folder_ + "/ranks");
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.last.slots(0).unfit().empty(); }));
  service_.Want({Assign("environment", 2, 0)});
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 2, 0});
  }));
  const v1::MemberStatus second = service_.state().ranks[Key(kJob, 2, 0)];
  EXPECT_FALSE(second.has_failure()) << second.DebugString();
}

TEST_F(WorkerSessionTest, OnAFullDiskNobodyIsSilent) {
  options_.busy_hold = absl::Milliseconds(1);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0}) &&
           state.last.members(0).silent().nanos() > 0;
  }));
  End();
  session_.reset();
  options_.least_room_bytes = std::numeric_limits<int64_t>::max();
  service_.Want({Assign("wait", 2)});
  Run();
  for (int i = 0; i < 3; ++i) {
    const int calls = service_.state().calls;
    ASSERT_TRUE(service_.WaitFor([&](const State& state) {
      return Running(state, {kJob, 2, 0}) && state.calls > calls;
    }));
    const v1::MemberStatus status = service_.state().ranks[Key(kJob, 2, 0)];
    EXPECT_EQ(status.silent().nanos(), 0);
    EXPECT_EQ(status.stalled().nanos(), 0);
  }
}

TEST_F(WorkerSessionTest, TellsFailuresWithTheLogsTail) {
  service_.Want({Assign("fail", 1, 0), Assign("crash", 1, 1)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && Exited(state, {kJob, 1, 1});
  }));
  State state = service_.state();
  const v1::Failure failure = StatusOf(0).failure();
  EXPECT_EQ(failure.failure_class(), v1::DATA);
  EXPECT_EQ(failure.message(), "line 7 is junk");
  EXPECT_THAT(failure.log_tail(), HasSubstr("a line about the data"));
  const v1::Failure crash = StatusOf(1).failure();
  EXPECT_EQ(crash.failure_class(), v1::RANK_LOST);
  EXPECT_THAT(crash.message(), HasSubstr("signal 6"));
  EXPECT_THAT(crash.log_tail(), HasSubstr("about to crash"));
  EXPECT_EQ(crash.rank(), 1);
}

TEST_F(WorkerSessionTest, AProgramThatCannotStartIsAFailure) {
  options_.trainer = "/no/such/trainer";
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  const v1::MemberStatus rank = StatusOf(0);
  EXPECT_EQ(rank.failure().failure_class(), v1::INTERNAL);
  EXPECT_THAT(rank.failure().message(), HasSubstr("/no/such/trainer"));
}

TEST_F(WorkerSessionTest, MembersReadOfferedFoldersOnly) {
  fs::create_directories(folder_ + "-open");
  DataRoots::Options roots;
  roots.folders = {folder_ + "-open"};
  ASSERT_OK_AND_ASSIGN(options_.data_roots, DataRoots::Create(roots));
  std::ofstream(folder_ + "-open/train.jsonl") << "{}\n";
  v1::MemberAssignment good = Assign("wait", 1, 0);
  good.mutable_spec()->mutable_data()->mutable_jsonl()->set_train(
      folder_ + "-open/train.jsonl");
  v1::MemberAssignment bad = Assign("wait", 1, 1);
  bad.mutable_spec()->mutable_data()->mutable_jsonl()->set_train("/etc/passwd");
  service_.Want({good, bad});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0}) && Exited(state, {kJob, 1, 1});
  }));
  const v1::Failure failure = StatusOf(1).failure();
  EXPECT_EQ(failure.failure_class(), v1::USER);
  EXPECT_THAT(failure.message(), HasSubstr("data.jsonl.train: /etc/passwd"));
  fs::remove_all(folder_ + "-open");
}

TEST_F(WorkerSessionTest, RefusesNamesThatAreNoNames) {
  v1::MemberAssignment escape = Assign("succeed");
  escape.set_job("jobs/../../etc");
  v1::MemberAssignment negative = Assign("succeed", 1, 0);
  negative.set_rank(-1);
  service_.Want({escape, negative, Assign("wait", 1, 1)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 1});
  }));
  EXPECT_EQ(service_.state().last.members_size(), 1);
}

TEST_F(WorkerSessionTest, WithoutTheStateToStartFromNoMemberStarts) {
  // Another attempt's, of a later step.
  const std::string folder = folder_ + "/jobs/a/work/checkpoints";
  ASSERT_OK(MakeDirectories(folder));
  ASSERT_OK(WriteFileAtomically(
      folder + "/step-000000000090.attempt-1.checkpoint", "late"));
  v1::MemberAssignment assignment = Assign("result", 3);
  assignment.set_resume(true);
  assignment.mutable_start()->set_attempt(2);
  assignment.mutable_start()->set_step(40);
  service_.Want({assignment});
  Run();
  ASSERT_TRUE(service_.WaitFor(
      [](const State& s) { return Exited(s, Key(kJob, 3, 0)); }));
  const v1::MemberStatus status = service_.state().ranks[Key(kJob, 3, 0)];
  EXPECT_EQ(status.failure().failure_class(), v1::CHECKPOINT_UNREACHABLE);
  EXPECT_THAT(status.failure().message(),
              HasSubstr("of step 40 saved by attempt 2"));
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/epoch-3"));
}

TEST_F(WorkerSessionTest, AStateOfAnotherJobReplacesWhatAMemberLeft) {
  const std::string body = "the state of another job";
  const std::string state = body + "\nsha256 " + Sha256Hex(body) + "\n";
  const std::string others = folder_ + "/jobs/b/work/checkpoints";
  ASSERT_OK(MakeDirectories(others));
  ASSERT_OK(WriteFileAtomically(
      others + "/step-000000000040.attempt-2.checkpoint", state));
  // An earlier attempt of this job left links where the copy grows.
  const std::string secret = folder_ + "/secret";
  ASSERT_OK(WriteFileAtomically(secret, "secret", 0600));
  const std::string start = folder_ + "/jobs/a/work/start_from.checkpoint";
  ASSERT_OK(MakeDirectories(folder_ + "/jobs/a/work"));
  fs::create_symlink(secret, start + ".tmp.copy");
  fs::create_symlink(secret, start);
  v1::MemberAssignment assignment = Assign("wait");
  assignment.mutable_spec()->mutable_start_from();
  assignment.set_start_job("jobs/b");
  assignment.mutable_start()->set_attempt(2);
  assignment.mutable_start()->set_step(40);
  service_.Want({assignment});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& s) {
    return Running(s, {kJob, 1, 0}) || Exited(s, {kJob, 1, 0});
  }));
  EXPECT_FALSE(StatusOf(0).has_failure()) << StatusOf(0).DebugString();
  EXPECT_FALSE(fs::is_symlink(start));
  EXPECT_EQ(*ReadFile(start), state);
  EXPECT_EQ(*ReadFile(secret), "secret");
  EXPECT_EQ(fs::status(secret).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(fs::exists(fs::symlink_status(start + ".tmp.copy")));
}

TEST_F(WorkerSessionTest, AMemberIsAskedToFinishByAFile) {
  v1::MemberAssignment assignment = Assign("wait");
  service_.Want({assignment});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  assignment.set_finish(true);
  service_.Want({assignment});
  EXPECT_TRUE(service_.WaitFor([&](const State&) {
    return fs::exists(folder_ + "/jobs/a/work/finish-1");
  }));
}

// Only root can run members as others.
TEST_F(WorkerSessionTest, AMemberOwnsTheFolderOfTheStateThatItResumesFrom) {
  const absl::StatusOr<MemberUser> user = FindMemberUser("nobody");
  if (!user.ok()) GTEST_SKIP() << user.status();
  options_.member_user = *user;
  const std::string body = "a state";
  const std::string name = "step-000000000040.attempt-2.checkpoint";
  ASSERT_OK(MakeDirectories(folder_ + "/store"));
  ASSERT_OK(WriteFileAtomically(folder_ + "/state",
                                body + "\nsha256 " + Sha256Hex(body) + "\n"));
  options_.checkpoint_store = OpenDirectoryStore(folder_ + "/store");
  ASSERT_OK(options_.checkpoint_store->PutFile(
      "checkpoints/a/" + name, *PlainFile::Open({folder_, "state"}), false));
  v1::MemberAssignment assignment = Assign("wait", 3);
  assignment.set_resume(true);
  assignment.mutable_start()->set_attempt(2);
  assignment.mutable_start()->set_step(40);
  service_.Want({assignment});
  Run();
  // The fake trainer may lie where that user cannot run it.
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 3, 0}) || Exited(state, {kJob, 3, 0});
  }));
  const std::string folder = folder_ + "/jobs/a/work/checkpoints";
  EXPECT_TRUE(fs::exists(folder + "/" + name));
  struct stat info = {};
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, user->uid);
}

TEST_F(WorkerSessionTest, AMemberThatWaitsForItsStateCanBeStopped) {
  options_.state_fetch.start_wait = absl::Hours(1);
  options_.state_fetch.min_backoff = absl::Hours(1);
  v1::MemberAssignment assignment = Assign("result", 3);
  assignment.set_resume(true);
  assignment.mutable_start()->set_step(40);
  v1::Peer& peer = *assignment.add_sources();
  peer.set_worker("gone");
  peer.set_address("127.0.0.1:1");
  service_.Want({assignment});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& s) {
    const auto it = s.ranks.find(Key(kJob, 3, 0));
    return it != s.ranks.end() &&
           it->second.phase() == v1::MemberStatus::STARTING;
  }));
  service_.Want({});
  EXPECT_TRUE(service_.WaitFor(
      [](const State& s) { return Exited(s, Key(kJob, 3, 0)); }));
}

TEST_F(WorkerSessionTest, StopsWhatIsNotWantedAnyMore) {
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.Want({});
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  // It was asked to end, not killed, so there is no failure.
  EXPECT_FALSE(StatusOf(0).has_failure());
  EXPECT_FALSE(StatusOf(0).has_result());
}

TEST_F(WorkerSessionTest, KillsWhatDoesNotStop) {
  options_.processes.grace = absl::Milliseconds(20);
  service_.Want({Assign("ignore_term")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.Want({});
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
}

TEST_F(WorkerSessionTest, LocalNewsCutAHeldCallShort) {
  options_.hold = absl::Seconds(3600);
  options_.call_timeout = absl::Seconds(3600);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  // The member dies by itself while nothing else happens.
  const std::vector<MemberRecord> records =
      MemberRecords(folder_ + "/ranks").Load();
  ASSERT_EQ(records.size(), 1u);
  kill(records[0].pid(), SIGKILL);
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_THAT(StatusOf(0).failure().message(), HasSubstr("signal 9"));
}

TEST_F(WorkerSessionTest, TrainsOnWhileTheCoordinatorIsAway) {
  // The second call below comes after the first was held this long.
  options_.hold = absl::Milliseconds(20);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.Stop();
  const int before = service_.state().calls;
  service_.Start();
  ASSERT_TRUE(service_.WaitFor(
      [&](const State& state) { return state.calls >= before + 2; }));
  // The same member neither ended nor started twice.
  State state = service_.state();
  EXPECT_EQ(state.exits_reported.size(), 0);
  ASSERT_EQ(state.last.members_size(), 1);
  EXPECT_EQ(state.last.members(0).phase(), v1::MemberStatus::RUNNING);
  EXPECT_EQ(state.last.members(0).step(), 7);
}

TEST_F(WorkerSessionTest, RepeatsReportsAndLogsUntilAcknowledged) {
  service_.SetAcknowledging(false);
  service_.SetForgetting(false);
  service_.Want({Assign("spam")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && state.repeated_reports >= 12;
  }));
  service_.SetAcknowledging(true);
  service_.SetForgetting(true);
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return state.last.members_size() == 0 && state.last.logs_size() == 0;
  }));
  State state = service_.state();
  EXPECT_EQ(state.reports.size(), 6);
  EXPECT_EQ(state.files.size(), 2);
  std::ifstream file(folder_ + "/jobs/a/logs/1-0.log");
  const std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_GT(written.size(), 2 << 20);
  EXPECT_TRUE(state.logs[Key(kJob, 1, 0)] == written);
}

TEST_F(WorkerSessionTest, CallsCarryABoundedPieceOfTheLog) {
  service_.SetAcknowledging(false);
  service_.Want({Assign("spam")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return state.last.logs_size() == 1 &&
           state.last.logs(0).data().size() >= 256 << 10;
  }));
  EXPECT_EQ(service_.state().last.logs(0).data().size(), 256 << 10);
}

TEST_F(WorkerSessionTest, TriesUploadsAgain) {
  service_.SetUploadError(absl::DataLossError("checksum"));
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.uploads >= 3; }));
  EXPECT_FALSE(Exited(service_.state(), Key(kJob, 1, 0)));
  service_.SetUploadError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_TRUE(StatusOf(0).has_result());
}

TEST_F(WorkerSessionTest, GivesUpAnUploadForAnEpochThatIsOver) {
  service_.SetUploadError(absl::AbortedError("attempt"));
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_FALSE(StatusOf(0).has_result());
}

TEST_F(WorkerSessionTest, AnUnwantedUploadIsNotTriedForEver) {
  service_.SetUploadError(absl::UnavailableError("disk"));
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.uploads >= 2; }));
  service_.Want({});
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_FALSE(StatusOf(0).has_result());
}

TEST_F(WorkerSessionTest, CarriesTheRendezvousOfASharedGang) {
  v1::MemberAssignment rank = Assign("meet");
  rank.set_local_world_size(1);
  service_.Want({rank});
  Run();
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.rendezvous.count("at/0") > 0; }));
  EXPECT_EQ(service_.state().rendezvous["at/0"], "address");
  v1::RendezvousEntry entry;
  entry.set_job(kJob);
  entry.set_attempt(1);
  entry.set_key("at/1");
  entry.set_value("elsewhere");
  service_.Offer(entry);
  entry.set_job("jobs/stranger");
  service_.Offer(entry);
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_TRUE(StatusOf(0).has_result());
  // Entries of other workers are not sent back.
  EXPECT_EQ(service_.state().rendezvous.count("at/1"), 0);
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/stranger"));
}

// The attack: one job's member silences its whole worker.
TEST_F(WorkerSessionTest, WhatAMemberLeavesForItsGangKeepsNobodyFromReporting) {
  v1::MemberAssignment litter = Assign("litter");
  litter.set_local_world_size(1);
  service_.Want({litter});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0}) &&
           state.rendezvous.count("litter-0") > 0;
  }));
  v1::MemberAssignment other = Assign("succeed", 1, 0);
  other.set_job("jobs/other");
  other.set_slot(1);
  service_.Want({litter, other});
  EXPECT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {"jobs/other", 1, 0});
  }));
}

TEST_F(WorkerSessionTest, AnotherIncarnationEndsThisOne) {
  service_.Want({Assign("ignore_term")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.SetError(absl::AbortedError("taken over"));
  thread_.join();
  EXPECT_THAT(run_status_, StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(fs::is_empty(folder_ + "/ranks"));  // No process left.
}

// By what a leader that was replaced knows, nothing runs here, or another
// daemon of this name does.
TEST_F(WorkerSessionTest, AnOldLeadersAnswerStopsNobody) {
  service_.SetTerm(7);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  service_.SetTerm(6);
  service_.Want({});
  const int calls = service_.state().calls;
  ASSERT_TRUE(service_.WaitFor(
      [&](const State& state) { return state.calls >= calls + 5; }));
  service_.SetError(absl::AbortedError("taken over"));
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.refused_calls >= 3; }));
  EXPECT_EQ(StatusOf(0).phase(), v1::MemberStatus::RUNNING);
  // The next leader is believed, and so is a coordinator of an earlier version.
  service_.SetTerm(8);
  service_.SetError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  service_.SetTerm(0);
  service_.Want({Assign("wait", 2)});
  EXPECT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 2, 0});
  }));
}

TEST_F(WorkerSessionTest, AnOldLeadersRefusalOfAModelIsNotFinal) {
  service_.SetTerm(7);
  service_.SetUploadError(absl::AbortedError("attempt"), 6);
  service_.Want({Assign("succeed")});
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.uploads >= 2; }));
  service_.SetUploadError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_TRUE(StatusOf(0).has_result());
}

TEST(LeaderFenceTest, RemembersTheHighestTermOverARestart) {
  const std::string path = testing::TempDir() + "/leader_term";
  fs::remove(path);
  {
    LeaderFence fence(path);
    EXPECT_TRUE(fence.Admit(5, "a"));
    EXPECT_TRUE(fence.Admit(9, "a"));
    EXPECT_FALSE(fence.Admit(5, "a"));
  }
  LeaderFence fence(path);
  EXPECT_FALSE(fence.Admit(8, "a"));
  // A coordinator of an earlier version does not say whose it is.
  EXPECT_FALSE(fence.Admit(8, ""));
  EXPECT_TRUE(fence.Admit(9, "a"));
  EXPECT_TRUE(fence.Admit(9, ""));
  EXPECT_FALSE(LeaderFence(path).Admit(8, "a"));
  // What is not a number counts as none.
  ASSERT_OK(WriteFileAtomically(path, "?"));
  EXPECT_TRUE(LeaderFence(path).Admit(1, ""));
}

TEST(LeaderFenceTest, AnotherClustersTermsAreItsOwn) {
  const std::string path = testing::TempDir() + "/leader_term";
  fs::remove(path);
  EXPECT_TRUE(LeaderFence(path).Admit(9, "a"));
  LeaderFence fence(path);
  EXPECT_TRUE(fence.Admit(5, "b"));
  EXPECT_FALSE(fence.Admit(4, "b"));
  EXPECT_TRUE(fence.Admit(6, "b"));
  EXPECT_FALSE(LeaderFence(path).Admit(5, "b"));
}

// The file of an earlier version names no cluster.
TEST(LeaderFenceTest, AFileWithoutAClusterGetsOne) {
  const std::string path = testing::TempDir() + "/leader_term";
  ASSERT_OK(WriteFileAtomically(path, "9\n"));
  EXPECT_FALSE(LeaderFence(path).Admit(8, "a"));
  EXPECT_TRUE(LeaderFence(path).Admit(9, "a"));
  EXPECT_FALSE(LeaderFence(path).Admit(8, "a"));
  EXPECT_TRUE(LeaderFence(path).Admit(8, "b"));
}

TEST_F(WorkerSessionTest, StopEndsTheMembersAndTellsSo) {
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  session_->Stop();
  thread_.join();
  EXPECT_OK(run_status_);
  const v1::MemberStatus rank = StatusOf(0);
  EXPECT_EQ(rank.phase(), v1::MemberStatus::EXITED);
  EXPECT_EQ(rank.failure().failure_class(), v1::PREEMPTED);
  // No new members may be placed here.
  EXPECT_EQ(service_.state().last.slots_size(), 0);
}

TEST_F(WorkerSessionTest, KillsWhatAnEarlierDaemonLeft) {
  // A process as a crashed daemon would leave it, with its record.
  const pid_t leftover = fork();
  if (leftover == 0) {
    setpgid(0, 0);
    while (true) pause();
  }
  const MemberRecords records(folder_ + "/ranks");
  MemberRecord record;
  record.set_id(1);
  MemberRecords::Identify(leftover, &record);
  ASSERT_OK(records.Write(record));
  // A foreign process that has the process id of an old record survives.
  record.set_id(2);
  record.set_pid(getpid());
  record.set_identity("1 /some/older/program");
  ASSERT_OK(records.Write(record));
  Create();
  int status = 0;
  ASSERT_EQ(waitpid(leftover, &status, 0), leftover);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::is_empty(folder_ + "/ranks"));
}

// A daemon whose members survive it, and those that follow it on this machine.
class AdoptionTest : public WorkerSessionTest {
 protected:
  AdoptionTest() {
    options_.member_lease = absl::Hours(1);
    options_.daemon = "first";
  }

  // Ends the daemon but not its members.
  void Leave() {
    session_->Leave();
    thread_.join();
    EXPECT_OK(run_status_);
    session_.reset();
  }
  std::vector<MemberRecord> Records() const {
    return MemberRecords(folder_ + "/ranks").Load();
  }
  std::string KeptIncarnation() const {
    return MemberRecords(folder_ + "/ranks").KeptIncarnation();
  }
  // Starts the next daemon as the program does.
  void Follow() {
    options_.daemon = "second";
    options_.incarnation = KeptIncarnation();
    Run();
  }
};

TEST_F(AdoptionTest, TheNextDaemonGoesOnWithTheMembers) {
  service_.Want({Assign("wait", 1, 0), Assign("wait", 1, 1)});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0}) && Running(state, {kJob, 1, 1});
  }));
  EXPECT_TRUE(service_.state().last.members_survive());
  Leave();
  const std::vector<MemberRecord> records = Records();
  ASSERT_EQ(records.size(), 2u);
  for (const MemberRecord& record : records) {
    EXPECT_EQ(kill(record.pid(), 0), 0);
  }
  const size_t reports = service_.state().reports.size();
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return state.last.daemon() == "second" && state.last.members_size() == 2;
  }));
  EXPECT_EQ(service_.state().last.incarnation(), "first");
  // Nothing is told twice.
  EXPECT_EQ(service_.state().reports.size(), reports);
  // They are stopped like any others.
  service_.Want({});
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && Exited(state, {kJob, 1, 1});
  }));
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.last.members_size() == 0; }));
  End();
  EXPECT_TRUE(Records().empty());
  for (const MemberRecord& record : records) {
    EXPECT_EQ(waitpid(record.pid(), nullptr, 0), record.pid());
  }
}

TEST_F(AdoptionTest, AMemberThatEndsWhileNobodyIsThereHasItsResult) {
  service_.Want({Assign("succeed_when_told")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    const auto log = state.logs.find({kJob, 1, 0});
    return log != state.logs.end() && log->second == "waiting\n" &&
           !state.reports.empty();
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  const pid_t pid = Records()[0].pid();
  kill(pid, SIGTERM);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && state.last.members_size() == 0;
  }));
  End();
  State state = service_.state();
  EXPECT_FALSE(StatusOf(0).has_failure()) << StatusOf(0).DebugString();
  EXPECT_EQ(StatusOf(0).result().outcome(), v1::COMPLETED);
  EXPECT_EQ(StatusOf(0).model().files_size(), 2);
  // Stage, run info, three metrics and the result, each once and in order.
  ASSERT_EQ(state.reports.size(), 6u);
  EXPECT_TRUE(state.reports.back().event().has_result());
  EXPECT_EQ((state.logs[{kJob, 1, 0}]), "waiting\ntold\n");
  EXPECT_TRUE(Records().empty());
}

// The coordinator has given the attempt up, and refuses its model, until it
// hears that the member is here.
TEST_F(AdoptionTest, AModelWaitsUntilTheCoordinatorKnowsOfTheMember) {
  service_.Want({Assign("succeed_when_told")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    const auto log = state.logs.find({kJob, 1, 0});
    return log != state.logs.end() && log->second == "waiting\n";
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  const pid_t pid = Records()[0].pid();
  kill(pid, SIGTERM);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  service_.SetUploadError(absl::AbortedError("has no running attempt"));
  service_.SetError(absl::UnavailableError("busy"));
  const int refused = service_.state().refused_calls;
  Follow();
  ASSERT_TRUE(service_.WaitFor(
      [&](const State& state) { return state.refused_calls >= refused + 10; }));
  EXPECT_EQ(service_.state().uploads, 0);
  service_.SetUploadError(absl::OkStatus());
  service_.SetError(absl::OkStatus());
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_EQ(StatusOf(0).result().outcome(), v1::COMPLETED);
  EXPECT_EQ(StatusOf(0).model().files_size(), 2);
}

TEST_F(AdoptionTest, TheIncarnationIsKeptWithoutMembers) {
  EXPECT_EQ(KeptIncarnation(), "");
  Run();
  ASSERT_TRUE(
      service_.WaitFor([](const State& state) { return state.calls > 0; }));
  Leave();
  EXPECT_TRUE(Records().empty());
  EXPECT_EQ(KeptIncarnation(), "first");
  Follow();
  ASSERT_TRUE(service_.WaitFor(
      [](const State& state) { return state.last.daemon() == "second"; }));
  EXPECT_EQ(service_.state().last.incarnation(), "first");
  // A refused one is not tried again.
  service_.SetError(absl::AbortedError("taken over"));
  thread_.join();
  session_.reset();
  EXPECT_EQ(KeptIncarnation(), "");
}

TEST_F(AdoptionTest, AnIncarnationWhoseMembersEndWithTheirDaemonIsNotKept) {
  Create();
  session_.reset();
  EXPECT_EQ(KeptIncarnation(), "first");
  options_.member_lease = absl::ZeroDuration();
  Create();
  EXPECT_EQ(KeptIncarnation(), "");
}

// The next daemon is given other GPUs, so that it counts them differently.
TEST_F(AdoptionTest, AGpuThatAMemberOfAnotherSlotUsesIsNotFree) {
  AddGpu(0);
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  const pid_t pid = Records()[0].pid();
  options_.slots[0] = v1::Slot();
  FakeGpuDriver* const gpu = AddGpu(1);
  GpuReading held;
  held.used_bytes = int64_t{5} << 30;
  gpu->Set(0, held);
  v1::MemberAssignment other = Assign("succeed");
  other.set_job("jobs/b");
  other.set_slot(1);
  service_.Want({Assign("wait"), other});
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {"jobs/b", 1, 0});
  }));
  State state = service_.state();
  EXPECT_THAT((state.ranks[{"jobs/b", 1, 0}].failure().message()),
              HasSubstr("started in another slot"));
  EXPECT_THAT(state.last.slots(1).unfit(), HasSubstr("another slot"));
  // It is free when that member has ended.
  service_.Want({});
  gpu->Set(0, GpuReading());
  EXPECT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0}) && state.last.slots(1).unfit().empty();
  }));
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST_F(AdoptionTest, OnlyDataOfTheMembersThatAreLeftStay) {
  service_.Want({Assign("wait")});
  Run();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Running(state, {kJob, 1, 0});
  }));
  Leave();
  ASSERT_EQ(Records().size(), 1u);
  MemberRecord record = Records()[0];
  const std::string used(64, 'd'), unused(64, 'e');
  record.mutable_assignment()->add_datasets()->set_digest(used);
  ASSERT_OK(MemberRecords(folder_ + "/ranks").Write(record));
  const std::string views = folder_ + "/datasets/views/";
  for (const std::string& digest : {used, unused}) {
    fs::create_directories(views + digest);
  }
  Follow();
  EXPECT_TRUE(fs::exists(views + used));
  EXPECT_FALSE(fs::exists(views + unused));
  End();
  EXPECT_EQ(waitpid(record.pid(), nullptr, 0), record.pid());
}

TEST_F(AdoptionTest, ALeaseFileThatWasRemovedIsMadeAgain) {
  options_.member_lease = absl::Milliseconds(10);
  Create();
  ASSERT_TRUE(fs::remove(folder_ + "/lease"));
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (!fs::exists(folder_ + "/lease") && absl::Now() < end) sched_yield();
  EXPECT_TRUE(fs::exists(folder_ + "/lease"));
}

TEST_F(AdoptionTest, AStartThatWasCutShortIsNotRepeated) {
  MemberRecord record;
  MemberRecords::Identify(0, &record);
  record.set_id(4);
  record.set_survives(true);
  record.set_incarnation("first");
  *record.mutable_assignment() = Assign("wait");
  ASSERT_OK(MemberRecords(folder_ + "/ranks").Write(record));
  service_.Want({Assign("wait")});
  Follow();
  ASSERT_TRUE(service_.WaitFor([](const State& state) {
    return Exited(state, {kJob, 1, 0});
  }));
  EXPECT_EQ(StatusOf(0).failure().failure_class(), v1::RANK_LOST);
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/logs/1-0.log"));
}

TEST_F(AdoptionTest, MembersOfAnotherBootAreNotAdopted) {
  MemberRecord record;
  MemberRecords::Identify(getpid(), &record);
  record.set_id(1);
  record.set_survives(true);
  record.set_incarnation("first");
  EXPECT_TRUE(MemberRecords::CanBeAdopted(record));
  record.set_boot("another");
  EXPECT_FALSE(MemberRecords::CanBeAdopted(record));
  const MemberRecords records(folder_ + "/ranks");
  ASSERT_OK(records.Write(record));
  EXPECT_EQ(records.KeptIncarnation(), "");
}

}  // namespace
}  // namespace comera::worker
