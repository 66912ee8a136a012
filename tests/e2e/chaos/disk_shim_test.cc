// Tests that the library disturbs writes below one folder, while it is told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "tests/e2e/command.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

class DiskShimTest : public ::testing::Test {
 protected:
  DiskShimTest()
      : folder_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    EXPECT_OK(MakeDirectories(folder_ + "/disk"));
    real_folder_ = std::filesystem::canonical(folder_).string();
    EXPECT_OK(MakeDirectories(folder_ + "/disk2"));
  }

  void Control(const std::string& line) {
    ASSERT_OK(WriteFileAtomically(folder_ + "/control", line));
  }
  // Writes a file with dd, which calls write() and fsync().
  int Write(const std::string& path) {
    return RunCommand(
               {"/usr/bin/env",
                "LD_PRELOAD=" + Binary("tests/e2e/chaos/libdisk_shim.so"),
                "COMERA_DISK_FAULTS=" + folder_ + "/control", "/usr/bin/dd",
                "if=/dev/zero", absl::StrCat("of=", folder_, "/", path),
                "bs=1k", "count=3", "conv=fsync"},
               folder_ + "/log", absl::Seconds(30))
        .exit_code;
  }

  const std::string folder_;
  // The folder as the kernel names it.
  std::string real_folder_;
};

TEST_F(DiskShimTest, WithoutAWordAllIsWell) {
  EXPECT_EQ(Write("disk/a"), 0);
  Control("");
  EXPECT_EQ(Write("disk/a"), 0);
  Control("what is this");
  EXPECT_EQ(Write("disk/a"), 0);
}

TEST_F(DiskShimTest, WritesBelowTheFolderFail) {
  Control(absl::StrCat(real_folder_, "/disk\t0\t100\n"));
  EXPECT_NE(Write("disk/a"), 0);
  EXPECT_THAT(*ReadFile(folder_ + "/log"),
              ::testing::HasSubstr("Input/output error"));
  EXPECT_EQ(Write("disk2/a"), 0);
  Control("");
  EXPECT_EQ(Write("disk/a"), 0);
}

TEST_F(DiskShimTest, WritesBelowTheFolderTakeLonger) {
  Control(absl::StrCat(real_folder_, "/disk\t100\t0\n"));
  const absl::Time begin = absl::Now();
  EXPECT_EQ(Write("disk/a"), 0);
  // Three writes and a sync.
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(400));
}

}  // namespace
}  // namespace comera::e2e
