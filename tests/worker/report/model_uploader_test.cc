// Tests what the uploader makes of folders that a hostile member has filled,
// and how models wait for each other.
#include "worker/report/model_uploader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/time/time.h"
#include "common/event.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_worker_service.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class ModelUploaderTest : public ::testing::Test {
 protected:
  ModelUploaderTest() {
    std::string folder = ::testing::TempDir() + "/model-XXXXXX";
    folder_ = mkdtemp(folder.data());
    model_ = folder_ + "/model";
    targets_ = folder_ + "/targets";
    EXPECT_OK(MakeDirectories(model_));
    EXPECT_OK(MakeDirectories(folder_ + "/victim/target-1"));
    std::ofstream(folder_ + "/victim/target-1/weights") << "secret";
  }
  ~ModelUploaderTest() override { fs::remove_all(folder_); }

  // The end of an upload that never gets as far as the network. One that would
  // is Aborted, because it is not tried again.
  absl::Status Upload() {
    std::promise<absl::Status> ended;
    ModelUploader uploader(
        {},
        grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()),
        [&](const v1::MemberKey&,
            const absl::StatusOr<ModelUploader::Models>& models) {
          ended.set_value(models.status());
        });
    v1::MemberKey rank;
    rank.set_job("jobs/j");
    rank.set_attempt(2);
    uploader.Upload(rank, {folder_, "model"}, {folder_, "targets"});
    uploader.StopRetrying(rank);
    return ended.get_future().get();
  }

  std::string folder_;
  // The job's own, as it is left by its member.
  std::string model_, targets_;
};

TEST_F(ModelUploaderTest, AnEmptyFolderIsNoModel) {
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("0 files")));
  fs::remove(model_);
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr(model_)));
}

TEST_F(ModelUploaderTest, WhatIsThereIsSent) {
  std::ofstream(model_ + "/weights") << "own";
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kAborted));
  // The targets come first.
  fs::remove_all(model_);
  EXPECT_OK(MakeDirectories(targets_ + "/target-1"));
  std::ofstream(targets_ + "/target-1/weights") << "own";
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(ModelUploaderTest, AFileThatClaimsMoreThanAnyModelIsNotRead) {
  std::ofstream(model_ + "/a") << "weights";
  std::ofstream(model_ + "/b") << "x";
  ASSERT_EQ(truncate((model_ + "/b").c_str(), int64_t{8} << 40), 0);
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("more than 64 GiB")));
}

TEST_F(ModelUploaderTest, LinksAndPipesAreNoFilesOfAModel) {
  ASSERT_EQ(symlink("/etc/passwd", (model_ + "/link").c_str()), 0);
  ASSERT_EQ(mkfifo((model_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("0 files")));
}

// The targets of another job would be uploaded as this one's.
TEST_F(ModelUploaderTest, AFolderOfTargetsThatIsALinkIsNotFollowed) {
  fs::create_symlink(folder_ + "/victim", targets_);
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr(targets_)));
}

TEST_F(ModelUploaderTest, AModelsFolderThatIsALinkIsNotFollowed) {
  const std::string victim = folder_ + "/victim/target-1";
  for (const char* name : {"/target-1", "/best-2", "/early-stage"}) {
    EXPECT_OK(MakeDirectories(targets_));
    fs::create_symlink(victim, targets_ + name);
    EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr(targets_ + name)));
    fs::remove_all(targets_);
  }
  fs::remove(model_);
  fs::create_symlink(victim, model_);
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr(model_)));
}

// Uploads one file of each job to a coordinator.
class ModelQueueTest : public ModelUploaderTest {
 protected:
  struct End {
    Event known;
    absl::Status status;
  };

  ModelQueueTest() {
    options_.min_backoff = absl::Milliseconds(1);
    options_.max_backoff = absl::Milliseconds(5);
    std::ofstream(model_ + "/weights") << "w";
  }

  static v1::MemberKey Member(const std::string& job) {
    v1::MemberKey rank;
    rank.set_job(job);
    rank.set_attempt(1);
    return rank;
  }

  End& EndOf(const std::string& job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<End>& end = ends_[job];
    if (end == nullptr) end = std::make_unique<End>();
    return *end;
  }

  void Upload(const std::string& job) {
    if (uploader_ == nullptr) {
      uploader_ = std::make_unique<ModelUploader>(
          options_,
          grpc::CreateChannel(service_.address(),
                              grpc::InsecureChannelCredentials()),
          [this](const v1::MemberKey& rank,
                 const absl::StatusOr<ModelUploader::Models>& models) {
            End& end = EndOf(rank.job());
            end.status = models.status();
            end.known.Notify();
          });
    }
    uploader_->Upload(Member(job), {folder_, "model"}, {folder_, "targets"});
  }

  absl::Status Await(const std::string& job) {
    End& end = EndOf(job);
    return end.known.WaitFor(absl::Seconds(20))
               ? end.status
               : absl::DeadlineExceededError("the upload does not end");
  }

  // Waits until the job's model was sent `count` times.
  bool AwaitTries(const std::string& job, int count) {
    return service_.WaitFor([&](const FakeWorkerService::State& state) {
      const auto tries = state.uploads_of.find(job);
      return tries != state.uploads_of.end() && tries->second >= count;
    });
  }

  FakeWorkerService service_;
  ModelUploader::Options options_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<End>> ends_;  // by job
  // Ends first.
  std::unique_ptr<ModelUploader> uploader_;
};

// The attack: a model that is never stored keeps all other jobs of its worker
// running for ever.
TEST_F(ModelQueueTest, AModelThatIsNotTakenDoesNotHoldUpOthers) {
  service_.SetUploadErrorOf("jobs/late", absl::DeadlineExceededError("slow"));
  service_.SetUploadErrorOf("jobs/full", absl::ResourceExhaustedError("quota"));
  service_.SetUploadErrorOf("jobs/away", absl::UnavailableError("away"));
  for (const char* bad : {"jobs/late", "jobs/full", "jobs/away"}) Upload(bad);
  ASSERT_TRUE(AwaitTries("jobs/late", 1));
  Upload("jobs/good");
  EXPECT_OK(Await("jobs/good"));
  // They have their turns, too.
  for (const char* bad : {"jobs/late", "jobs/full", "jobs/away"}) {
    EXPECT_TRUE(AwaitTries(bad, 5)) << bad;
    EXPECT_FALSE(EndOf(bad).known.HasHappened()) << bad;
  }
}

TEST_F(ModelQueueTest, AQuotaThatStaysFullEndsTheUpload) {
  options_.full_patience = absl::Milliseconds(20);
  service_.SetUploadErrorOf("jobs/full",
                            absl::ResourceExhaustedError("alice's quota"));
  Upload("jobs/full");
  EXPECT_THAT(Await("jobs/full"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("no room for 20ms: alice's quota")));
}

TEST_F(ModelQueueTest, AFileHasTheTimeThatItsSizeNeeds) {
  // Over before it begins, but for the 30 s of its bytes.
  options_.timeout = -absl::Seconds(10);
  options_.min_bytes_per_second = 1;
  std::ofstream(model_ + "/weights") << std::string(30, 'w');
  Upload("jobs/large");
  EXPECT_OK(Await("jobs/large"));
}

// The attack: the worker's calls name the files of models, and nothing of a
// call with a string that is not UTF-8 is read.
TEST_F(ModelQueueTest, FilesWithNamesThatAreNoTextAreNoModel) {
  std::ofstream(model_ + "/\xff") << "w";
  Upload("jobs/a");
  EXPECT_THAT(Await("jobs/a"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("characters")));
}

// The coordinator takes no more of an attempt, however often it is asked.
TEST_F(ModelQueueTest, MoreFilesThanAnAttemptMayHaveEndTheUpload) {
  for (int i = 1; i <= 5; ++i) {
    const std::string target = folder_ + "/targets/target-" + std::to_string(i);
    ASSERT_OK(MakeDirectories(target));
    for (int file = 0; file < 60; ++file) {
      std::ofstream(target + "/f" + std::to_string(file)) << "x";
    }
  }
  Upload("jobs/a");
  EXPECT_THAT(Await("jobs/a"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("more than 256 files")));
}

TEST_F(ModelQueueTest, RoomThatIsMadeInTimeIsUsed) {
  service_.SetUploadErrorOf("jobs/full", absl::ResourceExhaustedError("quota"));
  Upload("jobs/full");
  ASSERT_TRUE(AwaitTries("jobs/full", 3));
  service_.SetUploadErrorOf("jobs/full", absl::OkStatus());
  EXPECT_OK(Await("jobs/full"));
}

TEST_F(ModelQueueTest, ACoordinatorThatIsAwayLosesNoModel) {
  options_.full_patience = absl::ZeroDuration();
  service_.SetUploadErrorOf("jobs/a", absl::UnavailableError("away"));
  Upload("jobs/a");
  ASSERT_TRUE(AwaitTries("jobs/a", 5));
  EXPECT_FALSE(EndOf("jobs/a").known.HasHappened());
  service_.SetUploadErrorOf("jobs/a", absl::OkStatus());
  EXPECT_OK(Await("jobs/a"));
}

TEST_F(ModelQueueTest, AModelThatWaitsAndIsNotWantedEndsAtOnce) {
  options_.min_backoff = options_.max_backoff = absl::Hours(1);
  service_.SetUploadErrorOf("jobs/a", absl::UnavailableError("away"));
  Upload("jobs/a");
  ASSERT_TRUE(AwaitTries("jobs/a", 1));
  uploader_->StopRetrying(Member("jobs/a"));
  EXPECT_THAT(Await("jobs/a"),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("away")));
}

}  // namespace
}  // namespace comera::worker
