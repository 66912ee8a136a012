// Checks the layout of jobs' folders and the removal of old ones.

#include "worker/gang/job_folders.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Not;

class JobFoldersTest : public testing::Test {
 protected:
  JobFoldersTest() : folder_(NewFolder()), folders_(folder_) {
    rank_.set_job("jobs/a");
    rank_.set_attempt(3);
    rank_.set_rank(1);
    rank_.set_world_size(4);
    rank_.set_local_rank(1);
    rank_.set_local_world_size(2);
    rank_.set_resume(true);
    rank_.mutable_spec()->set_display_name("name \"quoted\"");
  }

  static std::string NewFolder() {
    std::string folder = testing::TempDir() + "/folders-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    return folder;
  }

  void WriteLog() {
    v1::MemberKey key;
    key.set_job("jobs/a");
    key.set_attempt(3);
    key.set_rank(1);
    std::ofstream(folders_.Log(key)) << "log";
  }

  // Makes everything below `path` look `age` old.
  void MakeOld(const std::string& path, absl::Duration age) {
    const auto time =
        fs::file_time_type::clock::now() - absl::ToChronoSeconds(age);
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      fs::last_write_time(entry, time);
    }
    fs::last_write_time(path, time);
  }

  std::string folder_;
  JobFolders folders_;
  v1::MemberAssignment rank_;
};

TEST_F(JobFoldersTest, WritesATaskThatReadsBack) {
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       folders_.WriteTask(rank_, 5, "10.0.0.7"));
  EXPECT_EQ(path, folder_ + "/jobs/a/epoch-3/rank-1/task.json");
  ASSERT_OK_AND_ASSIGN(const std::string json, ReadFile(path));
  trainer::TrainerTask task;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &task).ok());
  EXPECT_EQ(task.job(), "a");
  EXPECT_EQ(task.attempt(), 3);
  EXPECT_EQ(task.rank(), 1);
  EXPECT_EQ(task.world_size(), 4);
  EXPECT_EQ(task.local_rank(), 1);
  EXPECT_EQ(task.local_world_size(), 2);
  EXPECT_EQ(task.threads(), 5);
  EXPECT_TRUE(task.resume());
  EXPECT_EQ(task.spec().display_name(), "name \"quoted\"");
  EXPECT_TRUE(fs::is_directory(task.work_dir()));
  EXPECT_TRUE(fs::is_directory(task.rendezvous_dir()));
  EXPECT_TRUE(fs::is_directory(task.cache_dir()));
  EXPECT_EQ(task.work_dir(), folders_.Work("jobs/a").ToString());
  EXPECT_EQ(task.host(), "10.0.0.7");
  EXPECT_EQ(task.lease_file(), "");
  EXPECT_EQ(task.device(), v1::ResourceSpec::CPU);
}

TEST_F(JobFoldersTest, ProgramsDoNotGetTheDataOfOthers) {
  const std::string cache = folder_ + "/cache";
  EXPECT_THAT(folders_.WritableFolders(rank_), Contains(cache));
  rank_.mutable_spec()->mutable_program();
  EXPECT_THAT(folders_.WritableFolders(rank_),
              AllOf(Contains(folders_.Work("jobs/a").ToString()),
                    Not(Contains(cache))));
}

TEST_F(JobFoldersTest, TheDeviceIsThatOfTheSlot) {
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       folders_.WriteTask(rank_, 5, "", v1::ResourceSpec::GPU));
  ASSERT_OK_AND_ASSIGN(const std::string json, ReadFile(path));
  trainer::TrainerTask task;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &task).ok());
  EXPECT_EQ(task.device(), v1::ResourceSpec::GPU);
}

TEST_F(JobFoldersTest, AGangOnThisMachineAloneMeetsOnLoopback) {
  rank_.set_local_world_size(4);
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       folders_.WriteTask(rank_, 5, "10.0.0.7"));
  ASSERT_OK_AND_ASSIGN(const std::string json, ReadFile(path));
  EXPECT_EQ(json.find("host"), std::string::npos);
}

TEST_F(JobFoldersTest, RemovesAnEpochOrAllButTheLogs) {
  ASSERT_OK(folders_.WriteTask(rank_, 1, ""));
  WriteLog();
  folders_.RemoveAttempt("jobs/a", 3);
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/epoch-3"));
  EXPECT_TRUE(fs::exists(folders_.Work("jobs/a").ToString()));
  folders_.RemoveAllButLogs("jobs/a");
  EXPECT_FALSE(fs::exists(folders_.Work("jobs/a").ToString()));
  EXPECT_TRUE(fs::exists(folder_ + "/jobs/a/logs/3-1.log"));
}

TEST_F(JobFoldersTest, ATaskNamesTheStateToStartFrom) {
  rank_.mutable_start()->set_attempt(2);
  rank_.mutable_start()->set_step(40);
  const auto read = [&](trainer::TrainerTask* task) {
    ASSERT_OK_AND_ASSIGN(const std::string path,
                         folders_.WriteTask(rank_, 5, ""));
    ASSERT_OK_AND_ASSIGN(const std::string json, ReadFile(path));
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, task).ok());
  };
  trainer::TrainerTask task;
  read(&task);
  EXPECT_EQ(task.start().attempt(), 2);
  EXPECT_EQ(task.start().step(), 40);
  rank_.set_resume(false);
  trainer::TrainerTask anew;
  read(&anew);
  EXPECT_FALSE(anew.has_start());
}

TEST_F(JobFoldersTest, CheckpointsOfAStoppedJobStay) {
  ASSERT_OK(folders_.WriteTask(rank_, 1, ""));
  fs::create_directories(folders_.Checkpoints("jobs/a").ToString());
  MakeOld(folder_ + "/jobs/a", absl::Hours(96));
  std::ofstream(folders_.Checkpoints("jobs/a").ToString() + "/step") << "x";
  MakeOld(folder_ + "/jobs/a", absl::Hours(96));
  folders_.RemoveOld({}, absl::Hours(24), absl::Hours(24));
  EXPECT_TRUE(fs::exists(folders_.Checkpoints("jobs/a").ToString() + "/step"));
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/epoch-3"));
}

// A member may leave links to the files of another job.
TEST_F(JobFoldersTest, LinksLeadToNothingThatIsKeptOrRemoved) {
  ASSERT_OK(folders_.WriteTask(rank_, 1, ""));
  const std::string work = folders_.Work("jobs/a").ToString();
  const std::string victim = folders_.Checkpoints("jobs/b").ToString();
  fs::create_directories(victim);
  std::ofstream(victim + "/step") << "x";
  const auto link = [&] {
    fs::create_directory_symlink(victim, work + "/checkpoints");
    fs::create_symlink(victim + "/step", work + "/fresh");
  };
  link();
  MakeOld(folder_ + "/jobs/b", absl::Hours(96));
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(victim + "/step", now);
  const timespec old[2] = {{1, 0}, {1, 0}};
  for (const char* name : {"/checkpoints", "/fresh", ""}) {
    ASSERT_EQ(
        utimensat(AT_FDCWD, (work + name).c_str(), old, AT_SYMLINK_NOFOLLOW),
        0);
  }
  folders_.RemoveOld({"jobs/b"}, absl::Hours(24), absl::Hours(24));
  EXPECT_FALSE(fs::exists(fs::symlink_status(work)));
  EXPECT_TRUE(fs::exists(victim + "/step"));
  ASSERT_OK(folders_.WriteTask(rank_, 1, ""));
  link();
  folders_.RemoveAllButLogs("jobs/a");
  EXPECT_FALSE(fs::exists(fs::symlink_status(work)));
  EXPECT_TRUE(fs::exists(victim + "/step"));
}

TEST_F(JobFoldersTest, RemovesWhatIsOldAndNotInUse) {
  ASSERT_OK(folders_.WriteTask(rank_, 1, ""));
  WriteLog();
  MakeOld(folder_ + "/jobs/a", absl::Hours(48));
  folders_.RemoveOld({"jobs/a"}, absl::Hours(24), absl::Hours(24));
  EXPECT_TRUE(fs::exists(folders_.Work("jobs/a").ToString()));
  // A single recent file keeps its folder.
  std::ofstream(folders_.Work("jobs/a").ToString() + "/checkpoint") << "x";
  folders_.RemoveOld({}, absl::Hours(24), absl::Hours(72));
  EXPECT_TRUE(fs::exists(folders_.Work("jobs/a").ToString()));
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a/epoch-3"));
  EXPECT_TRUE(fs::exists(folder_ + "/jobs/a/logs/3-1.log"));
  MakeOld(folder_ + "/jobs/a", absl::Hours(96));
  folders_.RemoveOld({}, absl::Hours(24), absl::Hours(72));
  EXPECT_FALSE(fs::exists(folder_ + "/jobs/a"));
}

}  // namespace
}  // namespace comera::worker
