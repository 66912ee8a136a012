// Opens files beneath a folder, with and without openat2.

#include "worker/files/open_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "worker/files/descriptor.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

class OpenBeneathTest : public ::testing::TestWithParam<BeneathCheck> {
 protected:
  OpenBeneathTest() {
    folder_ = ::testing::TempDir() + "/beneath-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    fs::create_directories(folder_ + "/root/a/b");
    fs::create_directories(folder_ + "/other");
    std::ofstream(folder_ + "/root/a/b/file") << "within";
    std::ofstream(folder_ + "/other/file") << "without";
    root_ = Descriptor(
        open((folder_ + "/root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~OpenBeneathTest() override { fs::remove_all(folder_); }

  Descriptor Open(const std::string& path, int flags = O_RDONLY) {
    return Descriptor(OpenBeneath(root_.get(), path, flags, 0644, GetParam()));
  }
  // The error of opening it; 0 if it opens.
  int Error(const std::string& path, int flags = O_RDONLY) {
    errno = 0;
    return Open(path, flags).get() >= 0 ? 0 : errno;
  }
  void Link(const std::string& target, const std::string& name) {
    fs::create_symlink(target, folder_ + "/root/" + name);
  }

  std::string folder_;
  Descriptor root_{-1};
};

INSTANTIATE_TEST_SUITE_P(Checks, OpenBeneathTest,
                         ::testing::Values(BeneathCheck::kKernel,
                                           BeneathCheck::kWalk));

TEST_P(OpenBeneathTest, OpensWhatLiesThere) {
  for (const char* path : {"a/b/file", "./a//b/./file"}) {
    const Descriptor fd = Open(path);
    ASSERT_GE(fd.get(), 0) << path;
    char text[6] = {};
    EXPECT_EQ(read(fd.get(), text, sizeof(text)), 6);
    EXPECT_EQ(std::string(text, 6), "within");
    EXPECT_EQ(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  for (const char* path : {"", ".", "a", "a/b"}) {
    EXPECT_EQ(Error(path, O_RDONLY | O_DIRECTORY), 0) << path;
    EXPECT_EQ(Error(path, O_PATH), 0) << path;
  }
  EXPECT_EQ(Error("a/missing"), ENOENT);
  EXPECT_EQ(Error("missing/file"), ENOENT);
  EXPECT_EQ(Error("a/b/file/more"), ENOTDIR);
  EXPECT_EQ(Error("a/b/file", O_RDONLY | O_DIRECTORY), ENOTDIR);
}

TEST_P(OpenBeneathTest, FollowsNoLinkWhereverItLeads) {
  Link("a", "within");
  Link("../other", "out");
  Link(folder_ + "/other", "away");
  Link("b", "a/last");
  Link(folder_ + "/other/new", "dangling");
  Link("/proc/self/fd", "magic");
  for (const char* path :
       {"within/b/file", "within", "out/file", "out", "away/file", "a/last",
        "a/last/file", "dangling", "magic", "magic/0"}) {
    for (const int flags :
         {O_RDONLY, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW, int{O_PATH},
          O_PATH | O_NOFOLLOW, O_WRONLY | O_CREAT}) {
      EXPECT_EQ(Error(path, flags), ELOOP) << path << " " << flags;
    }
  }
  EXPECT_FALSE(fs::exists(folder_ + "/other/new"));
}

TEST_P(OpenBeneathTest, LeavesTheFolderByNoName) {
  for (const char* path : {"..", "../other/file", "a/../../other/file",
                           "a/../a/b/file", "/etc/passwd"}) {
    EXPECT_EQ(Error(path), EINVAL) << path;
  }
  EXPECT_EQ(Error(folder_ + "/root/a"), EINVAL);
  EXPECT_EQ(Error(std::string("a\0/b", 4)), EINVAL);
}

TEST_P(OpenBeneathTest, MakesAFileWithItsModeOnce) {
  const mode_t before = umask(027);
  EXPECT_EQ(Error("a/new", O_WRONLY | O_CREAT | O_EXCL), 0);
  umask(before);
  struct stat info = {};
  ASSERT_EQ(stat((folder_ + "/root/a/new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_EQ(Error("a/new", O_WRONLY | O_CREAT | O_EXCL), EEXIST);
  Link(folder_ + "/other/new", "a/link");
  EXPECT_EQ(Error("a/link", O_WRONLY | O_CREAT | O_EXCL), EEXIST);
  EXPECT_FALSE(fs::exists(folder_ + "/other/new"));
}

}  // namespace
}  // namespace comera::worker
