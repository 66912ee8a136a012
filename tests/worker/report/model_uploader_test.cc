// Tests what the uploader makes of folders that a hostile member has filled.
#include "worker/report/model_uploader.h"

#include <sys/stat.h>
#include <unistd.h>

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

using ::testing::HasSubstr;

class ModelUploaderTest : public ::testing::Test {
 protected:
  ModelUploaderTest() {
    std::string folder = ::testing::TempDir() + "/model-XXXXXX";
    folder_ = mkdtemp(folder.data());
  }

  // The end of an upload that never gets as far as the network.
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
    uploader.Upload(rank, folder_, folder_ + "/no-targets");
    return ended.get_future().get();
  }

  std::string folder_;
};

TEST_F(ModelUploaderTest, AnEmptyFolderIsNoModel) {
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("0 files")));
}

TEST_F(ModelUploaderTest, AFileThatClaimsMoreThanAnyModelIsNotRead) {
  std::ofstream(folder_ + "/a") << "weights";
  std::ofstream(folder_ + "/b") << "x";
  ASSERT_EQ(truncate((folder_ + "/b").c_str(), int64_t{8} << 40), 0);
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("more than 64 GiB")));
}

TEST_F(ModelUploaderTest, LinksAndPipesAreNoFilesOfAModel) {
  ASSERT_EQ(symlink("/etc/passwd", (folder_ + "/link").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("0 files")));
}

}  // namespace
}  // namespace comera::worker
