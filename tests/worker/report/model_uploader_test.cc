// Tests what the uploader makes of folders that a hostile member has filled.
#include "worker/report/model_uploader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

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

}  // namespace
}  // namespace comera::worker
