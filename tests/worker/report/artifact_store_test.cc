// Checks what a folder that cannot be listed says of its files.

#include "worker/report/artifact_store.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ArtifactStoreTest : public ::testing::Test {
 protected:
  ArtifactStoreTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/store");
    EXPECT_OK(WriteFileAtomically(folder_ + "/file", "state"));
  }

  absl::Status Put() {
    return store_->PutFile("checkpoints/a/1",
                           *PlainFile::Open({folder_, "file"}), abandoned_);
  }

  const std::string folder_ = ::testing::TempDir() + "/artifacts";
  const std::unique_ptr<ArtifactStore> store_ =
      OpenDirectoryStore(folder_ + "/store");
  const std::atomic<bool> abandoned_{false};
};

TEST_F(ArtifactStoreTest, AFolderThatIsUnmountedIsNoEmptyOne) {
  ASSERT_OK_AND_ASSIGN(auto files, store_->List("checkpoints", abandoned_));
  EXPECT_THAT(files, IsEmpty());
  ASSERT_OK(Put());
  ASSERT_OK_AND_ASSIGN(files, store_->List("checkpoints", abandoned_));
  EXPECT_THAT(files, ElementsAre("a/1"));
  std::filesystem::rename(folder_ + "/store", folder_ + "/away");
  EXPECT_EQ(store_->List("checkpoints", abandoned_).status().code(),
            absl::StatusCode::kUnavailable);
  // One job's folder may be gone.
  ASSERT_OK_AND_ASSIGN(files, store_->List("checkpoints/b", abandoned_));
  EXPECT_THAT(files, IsEmpty());
  std::filesystem::rename(folder_ + "/away", folder_ + "/store");
  ASSERT_OK_AND_ASSIGN(files, store_->List("checkpoints", abandoned_));
  EXPECT_THAT(files, ElementsAre("a/1"));
}

TEST_F(ArtifactStoreTest, WhatMayNotBeReadIsNotLeftOut) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  ASSERT_OK(Put());
  const std::string closed = folder_ + "/store/checkpoints/a";
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  EXPECT_EQ(store_->List("checkpoints", abandoned_).status().code(),
            absl::StatusCode::kUnavailable);
  std::filesystem::permissions(closed, std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace comera::worker
