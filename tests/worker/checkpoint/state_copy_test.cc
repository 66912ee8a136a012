// Checks that a training state is copied into a folder whose owner is hostile.
#include "worker/checkpoint/state_copy.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Makes a file as the trainer writes it.
std::string State(const std::string& text) {
  return absl::StrCat(text, "\nsha256 ", Sha256Hex(text), "\n");
}

class StateCopyTest : public ::testing::Test {
 protected:
  StateCopyTest() {
    EXPECT_OK(MakeDirectories(folder_ + "/other/work"));
    EXPECT_OK(MakeDirectories(folder_ + "/job/work"));
    EXPECT_OK(WriteFileAtomically(folder_ + "/other/work/state", state_));
    EXPECT_OK(WriteFileAtomically(folder_ + "/secret", "secret", 0600));
  }
  ~StateCopyTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  static std::string MakeFolder() {
    std::string folder = ::testing::TempDir() + "/copy-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    return folder;
  }

  absl::Status Copy() {
    ASSIGN_OR_RETURN(const CheckpointFile from,
                     CheckpointFile::Open({folder_ + "/other", "work/state"}));
    return CopyState(from, to_, abandoned_);
  }

  std::string Text(const std::string& path) {
    const auto text = ReadFile(path);
    return text.ok() ? *text : text.status().ToString();
  }
  // The names in the job's work folder.
  std::vector<std::string> Left() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ + "/job/work")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  mode_t ModeOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }

  const std::string folder_ = MakeFolder();
  const PathBelow to_ = {folder_ + "/job", "work/start"};
  const std::string path_ = to_.ToString();
  const std::string temporary_ = path_ + ".tmp.copy";
  const std::string state_ = State(std::string(3 << 20, 's'));
  std::atomic<bool> abandoned_{false};
};

TEST_F(StateCopyTest, TheCopyIsWholeAndHasAModeOfItsOwn) {
  ASSERT_EQ(chmod((folder_ + "/other/work/state").c_str(), 06777), 0);
  ASSERT_OK(Copy());
  EXPECT_TRUE(Text(path_) == state_);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(ModeOf(path_), 0644 & ~mask);
  EXPECT_THAT(Left(), ElementsAre("start"));
  // Over what is there.
  ASSERT_OK(WriteFileAtomically(path_, "an older one"));
  ASSERT_OK(Copy());
  EXPECT_TRUE(Text(path_) == state_);
}

TEST_F(StateCopyTest, AFolderThatIsMissingIsMade) {
  fs::remove_all(folder_ + "/job");
  ASSERT_OK(Copy());
  EXPECT_TRUE(Text(path_) == state_);
}

TEST_F(StateCopyTest, ALinkInThePlaceOfTheCopyIsReplaced) {
  fs::create_symlink(folder_ + "/secret", temporary_);
  fs::create_symlink(folder_ + "/secret", path_);
  ASSERT_OK(Copy());
  EXPECT_TRUE(Text(path_) == state_);
  EXPECT_FALSE(fs::is_symlink(path_));
  EXPECT_EQ(Text(folder_ + "/secret"), "secret");
  EXPECT_EQ(ModeOf(folder_ + "/secret"), 0600u);
  // A second name of a file is another way to the same.
  fs::create_hard_link(folder_ + "/secret", temporary_);
  ASSERT_OK(Copy());
  EXPECT_EQ(Text(folder_ + "/secret"), "secret");
  EXPECT_EQ(ModeOf(folder_ + "/secret"), 0600u);
}

TEST_F(StateCopyTest, ALeftoverIsNeverWrittenTo) {
  ASSERT_OK(WriteFileAtomically(temporary_, "left"));
  const int held = open(temporary_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(held, 0);
  ASSERT_OK(Copy());
  EXPECT_TRUE(Text(path_) == state_);
  // Whoever has the leftover open has neither seen the copy nor a hold on it.
  struct stat info = {};
  ASSERT_EQ(fstat(held, &info), 0);
  close(held);
  EXPECT_EQ(info.st_size, 4);
  EXPECT_EQ(info.st_nlink, 0u);
}

TEST_F(StateCopyTest, ALinkToTheSourceIsNotFollowed) {
  const std::string state = folder_ + "/other/work/state";
  fs::rename(state, folder_ + "/elsewhere");
  fs::create_symlink(folder_ + "/elsewhere", state);
  EXPECT_THAT(Copy(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(StateCopyTest, AFolderThatIsALinkIsNotWrittenTo) {
  fs::remove(folder_ + "/job/work");
  fs::create_directory(folder_ + "/elsewhere");
  fs::create_symlink(folder_ + "/elsewhere", folder_ + "/job/work");
  EXPECT_THAT(Copy(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(fs::is_empty(folder_ + "/elsewhere"));
}

TEST_F(StateCopyTest, WhatIsDamagedOrAbandonedIsNotTaken) {
  abandoned_ = true;
  EXPECT_THAT(Copy(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Left(), IsEmpty());
  abandoned_ = false;
  ASSERT_OK(WriteFileAtomically(folder_ + "/other/work/state", state_ + "x"));
  EXPECT_THAT(Copy(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Left(), IsEmpty());
}

}  // namespace
}  // namespace comera::worker
