// A full disk makes a coordinator read-only, and neither ends it nor loses
// anything.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_matchers.h"
#include "server/host/coordinator_host.h"
#include "server/host/disk_guard.h"
#include "tests/server/daemon/fake_disk_space.h"
#include "tests/server/daemon/server_fixture.h"
#include "tests/server/prepared_test_job.h"
#include "tests/server/sequential_ids.h"
#include "tests/server/store/fake_job_store.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

DiskGuard::Options SmallGuard() {
  DiskGuard::Options options;
  options.min_free_bytes = 10 * kMiB;
  options.resume_free_bytes = 20 * kMiB;
  options.reserve_bytes = kMiB;
  return options;
}

TEST(DiskGuard, ReadOnlyBetweenTheWatermarks) {
  TempDir folder;
  FakeDiskSpace space;
  DiskGuard guard(SmallGuard(), folder.path(), &space);
  const std::string reserve =
      absl::StrCat(folder.path(), "/", DiskGuard::kReserveName);
  guard.Check();
  EXPECT_OK(guard.CheckWritable());
  EXPECT_EQ(std::filesystem::file_size(reserve), kMiB);
  space.Set(9);
  guard.Check();
  EXPECT_THAT(guard.CheckWritable(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("9 MiB free, writable again with 20 MiB")));
  EXPECT_OK(guard.CheckMakesRoom());
  space.Set(19);
  guard.Check();
  EXPECT_TRUE(guard.read_only());
  space.Set(20);
  guard.Check();
  EXPECT_FALSE(guard.read_only());
}

TEST(DiskGuard, TheReserveIsGivenUpOnceAndMadeAgainWithRoom) {
  TempDir folder;
  FakeDiskSpace space;
  DiskGuard guard(SmallGuard(), folder.path(), &space);
  const std::string reserve =
      absl::StrCat(folder.path(), "/", DiskGuard::kReserveName);
  guard.Check();
  EXPECT_TRUE(guard.OnFull());
  EXPECT_FALSE(std::filesystem::exists(reserve));
  EXPECT_TRUE(guard.read_only());
  EXPECT_OK(guard.CheckMakesRoom());
  EXPECT_FALSE(guard.OnFull());
  EXPECT_THAT(guard.CheckMakesRoom(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // There is room, but what waits in the store has not been written yet.
  guard.Check();
  EXPECT_TRUE(guard.read_only());
  guard.OnWritten();
  guard.Check();
  EXPECT_FALSE(guard.read_only());
  EXPECT_TRUE(std::filesystem::exists(reserve));
}

TEST(DiskGuard, LargeFilesStopBeforeTheStoreDoes) {
  TempDir folder;
  FakeDiskSpace space;
  DiskGuard guard(SmallGuard(), folder.path(), &space);
  space.Set(30);
  EXPECT_OK(guard.CheckRoom(10 * kMiB));
  EXPECT_THAT(guard.CheckRoom(10 * kMiB + 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("for the coordinator's store")));
  // It looks at the disk as it is now.
  space.Set(15);
  EXPECT_THAT(guard.CheckRoom(1),
              StatusIs(absl::StatusCode::kResourceExhausted));
  guard.Check();
  EXPECT_OK(guard.CheckWritable());
}

class FullStoreTest : public ::testing::Test {
 protected:
  FullStoreTest() : guard_(NoReserve(), folder_.path(), &space_) {
    StartHost();
  }

  void StartHost() {
    host_.reset();
    CoordinatorHost::Options options;
    options.data_dir = folder_.path();
    options.tick_interval = absl::InfiniteDuration();
    options.disk = &guard_;
    options.on_read_only = [this](bool read_only) {
      changes_.push_back(read_only);
    };
    auto host = CoordinatorHost::Start(options, &store_, &ids_, &clock_,
                                       [this](const absl::Status& status) {
                                         EXPECT_TRUE(stopping_) << status;
                                       });
    ASSERT_OK(host);
    host_ = *std::move(host);
  }

  static DiskGuard::Options NoReserve() {
    DiskGuard::Options options = SmallGuard();
    options.reserve_bytes = 0;
    return options;
  }

  // Returns once the store's thread has come to the end of its queue.
  void AwaitStore() {
    std::promise<void> reached;
    host_->loop().Run(
        [&] { host_->Read([&](JobStore*) { reached.set_value(); }); });
    reached.get_future().wait();
  }

  std::future<absl::StatusOr<v1::Job>> Create() {
    auto result = std::make_shared<std::promise<absl::StatusOr<v1::Job>>>();
    host_->CreateJob(PreparedTestJob(TestSpec(1)),
                     [result](absl::StatusOr<v1::Job> job) {
                       result->set_value(std::move(job));
                     });
    return result->get_future();
  }

  absl::StatusOr<v1::SynchronizeResponse> Sync(
      const std::vector<v1::MemberStatus>& members = {}) {
    v1::SynchronizeRequest request;
    request.set_worker("w");
    request.set_incarnation("i");
    request.add_slots()->set_device(v1::ResourceSpec::CPU);
    for (const auto& member : members) *request.add_members() = member;
    std::promise<absl::StatusOr<v1::SynchronizeResponse>> result;
    host_->Synchronize(request,
                       [&](absl::StatusOr<v1::SynchronizeResponse> response) {
                         result.set_value(std::move(response));
                       });
    return result.get_future().get();
  }

  TempDir folder_;
  FakeJobStore store_;
  SequentialIds ids_;
  ManualClock clock_;
  FakeDiskSpace space_;
  DiskGuard guard_;
  std::vector<bool> changes_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<CoordinatorHost> host_;
};

TEST_F(FullStoreTest, ReadsGoOnWritesAreRefusedAndTheModeEndsByItself) {
  const absl::StatusOr<v1::Job> job = Create().get();
  ASSERT_OK(job);
  ASSERT_OK(Sync());
  space_.Set(5);
  host_->TickNow();
  EXPECT_THAT(Create().get(), StatusIs(absl::StatusCode::kResourceExhausted,
                                       HasSubstr("read-only")));
  EXPECT_THAT(Sync(), StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_TRUE(host_->FindJob(job->name()));
  // Also an operator's answers.
  std::promise<size_t> workers;
  host_->ListWorkers([&](const absl::StatusOr<v1::ListWorkersResponse>& list) {
    workers.set_value(list->workers_size());
  });
  EXPECT_EQ(workers.get_future().get(), 1u);
  space_.Set(50);
  host_->TickNow();
  EXPECT_OK(Create().get());
  EXPECT_OK(Sync());
  EXPECT_EQ(changes_, (std::vector<bool>{true, false}));
}

TEST_F(FullStoreTest, AnAcceptedChangeWaitsForRoomAndIsNotLost) {
  // What the host notes at its start is to be written before.
  AwaitStore();
  store_.FailCommits(absl::ResourceExhaustedError("disk full"));
  auto waiting = Create();
  // The store's thread has told the guard by then.
  AwaitStore();
  EXPECT_THAT(Create().get(), StatusIs(absl::StatusCode::kResourceExhausted,
                                       HasSubstr("store finds the disk full")));
  host_->TickNow();
  store_.FailCommits(absl::OkStatus());
  // This tick has it written; a later one sees that nothing waits.
  host_->TickNow();
  EXPECT_OK(waiting.get());
  host_->TickNow();
  EXPECT_OK(Create().get());
  EXPECT_EQ(store_.LoadJobs()->size(), 2u);
}

TEST_F(FullStoreTest, AStopDoesNotWaitForRoom) {
  // The store's failure at the end is told to whoever runs the host.
  AwaitStore();
  stopping_ = true;
  store_.FailCommits(absl::ResourceExhaustedError("disk full"));
  auto waiting = Create();
  host_.reset();
  EXPECT_THAT(waiting.get(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(store_.LoadJobs()->size(), 0u);
}

TEST_F(FullStoreTest, ARunningAttemptSurvivesHoursWithoutRoom) {
  const absl::StatusOr<v1::Job> job = Create().get();
  ASSERT_OK(job);
  // The scheduler runs after the call that brought the slots, and pauses after
  // a pass that the machine held up.
  v1::SynchronizeResponse placed;
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (placed.desired_size() == 0 && absl::Now() < end) {
    ASSERT_OK_AND_ASSIGN(placed, Sync());
  }
  ASSERT_EQ(placed.desired_size(), 1);
  v1::MemberStatus member;
  member.set_job(job->name());
  member.set_attempt(1);
  member.set_phase(v1::MemberStatus::RUNNING);
  ASSERT_OK(Sync({member}));
  ASSERT_EQ(host_->FindJob(job->name())->job->state(), v1::RUNNING);
  space_.Set(5);
  host_->TickNow();
  for (int hour = 0; hour < 6; ++hour) {
    clock_.Advance(absl::Hours(1));
    host_->TickNow();
    // A restart in between changes nothing.
    if (hour == 2) StartHost();
  }
  space_.Set(50);
  host_->TickNow();
  host_->TickNow();
  ASSERT_OK_AND_ASSIGN(const v1::SynchronizeResponse back, Sync({member}));
  EXPECT_EQ(back.desired_size(), 1);
  EXPECT_EQ(host_->FindJob(job->name())->job->attempt(), 1);
  EXPECT_EQ(host_->FindJob(job->name())->job->state(), v1::RUNNING);
}

// A server whose data lie on a small disk of their own.
class SmallDiskTest : public ServerFixture {
 protected:
  void SetUp() override {
    StopServer();
    const std::string disk = folder_.path() + "/disk";
    std::filesystem::create_directory(disk);
    if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=16m") != 0) {
      GTEST_SKIP() << "only root can make a small disk to fill";
    }
    disk_ = disk;
    options_.data_dir = disk + "/data";
    options_.disk.min_free_bytes = 2 * kMiB;
    options_.disk.resume_free_bytes = 4 * kMiB;
    options_.disk.reserve_bytes = kMiB;
    StartServer();
  }

  void TearDown() override {
    StopServer();
    if (!disk_.empty()) umount2(disk_.c_str(), MNT_DETACH);
  }

  void Fill() {
    const int fd = open(Ballast().c_str(), O_CREAT | O_WRONLY, 0600);
    const std::string block(4096, 'x');
    while (write(fd, block.data(), block.size()) > 0) continue;
    close(fd);
  }
  std::string Ballast() const { return disk_ + "/ballast"; }

  grpc::Status TryCreate() {
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    v1::Job job;
    return training_->CreateJob(Context().get(), request, &job);
  }

  std::string disk_;
};

TEST_F(SmallDiskTest, FullRestartedAndEmptiedAgain) {
  const v1::Job before = Create(TestSpec(1));
  Fill();
  // Nobody has looked at the disk since. The reserve has room for this.
  const v1::Job last = Create(TestSpec(1));
  server_->host().TickNow();
  grpc::Status refused = TryCreate();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("read-only"));
  EXPECT_EQ(Get(last.name()).state(), v1::QUEUED);
  EXPECT_THAT(server_->metrics_source()(), HasSubstr("comera_read_only 1"));
  // No loop of crashes: it starts, and says the same.
  RestartServer();
  ASSERT_NE(server_, nullptr);
  EXPECT_EQ(TryCreate().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Get(before.name()).state(), v1::QUEUED);
  EXPECT_EQ(Get(last.name()).state(), v1::QUEUED);
  Worker worker{"w"};
  v1::SynchronizeResponse response;
  EXPECT_EQ(Sync(worker, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  std::filesystem::remove(Ballast());
  server_->host().TickNow();
  EXPECT_TRUE(TryCreate().ok());
  EXPECT_TRUE(Sync(worker, &response).ok());
  EXPECT_THAT(server_->metrics_source()(), HasSubstr("comera_read_only 0"));
}

}  // namespace
}  // namespace comera::server
