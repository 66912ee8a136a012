// Runs members of jobs, real processes of the fake trainer, from their
// assignment to their end.
#include "worker/session/worker_session.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_gpu_driver.h"
#include "tests/worker/session/worker_session_fixture.h"
#include "worker/data/data_roots.h"
#include "worker/files/plain_file.h"
#include "worker/gang/member_user.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

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
              HasSubstr("CUDA_VISIBLE_DEVICES=GPU-0 NCCL_NVLS_ENABLE=0 "
                        "device=GPU"));
  EXPECT_THAT((logs[{kJob, 1, 1}]),
              HasSubstr("CUDA_VISIBLE_DEVICES= NCCL_NVLS_ENABLE=- "
                        "device=CPU"));
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

}  // namespace
}  // namespace comera::worker
