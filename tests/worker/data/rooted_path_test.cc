// Walks paths below roots, with and without the kernel's own check.

#include "worker/data/rooted_path.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/status_matchers.h"
#include "gmock/gmock.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

class RootedPathTest : public ::testing::TestWithParam<BeneathCheck> {
 protected:
  RootedPathTest() {
    folder_ = ::testing::TempDir() + "/rooted-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    folder_ = fs::canonical(folder_).string();
    fs::create_directories(folder_ + "/root/a/b");
    fs::create_directories(folder_ + "/other");
    std::ofstream(folder_ + "/root/a/b/file") << "x";
    std::ofstream(folder_ + "/other/file") << "y";
    root_ = {folder_ + "/root", folder_ + "/root"};
  }
  ~RootedPathTest() override { fs::remove_all(folder_); }

  absl::StatusOr<RootedPath> Find(const std::string& below) const {
    return FindBelow(root_.given + below, {root_}, GetParam());
  }
  void Link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, folder_ + name);
  }

  std::string folder_;
  PathRoot root_;
};

INSTANTIATE_TEST_SUITE_P(Checks, RootedPathTest,
                         ::testing::Values(BeneathCheck::kKernel,
                                           BeneathCheck::kWalk));

TEST_P(RootedPathTest, FindsAFileAndTheFoldersOnTheWay) {
  Link("a/b", "/root/short");
  Link(folder_ + "/root/a", "/root/a/b/up");
  for (const char* path : {"/a/b/file", "//a/./b/../b/file", "/short/file",
                           "/short/up/b/up/b/file", "/short/../b/file"}) {
    ASSERT_OK_AND_ASSIGN(const RootedPath found, Find(path));
    EXPECT_EQ(found.path, folder_ + "/root/a/b/file");
    EXPECT_FALSE(found.is_folder);
    EXPECT_FALSE(found.is_kernel_state);
    ASSERT_EQ(found.line.size(), 4u) << path;
    const char* names[] = {"/root", "/root/a", "/root/a/b", "/root/a/b/file"};
    for (size_t i = 0; i < found.line.size(); ++i) {
      struct stat info = {};
      ASSERT_EQ(stat((folder_ + names[i]).c_str(), &info), 0);
      EXPECT_EQ(found.line[i].inode, info.st_ino);
      EXPECT_EQ(found.line[i].device, info.st_dev);
    }
  }
  ASSERT_OK_AND_ASSIGN(const RootedPath root, Find("/a/.."));
  EXPECT_EQ(root.path, folder_ + "/root");
  EXPECT_TRUE(root.is_folder);
  EXPECT_EQ(root.line.size(), 1u);
}

TEST_P(RootedPathTest, LeavesNoRoot) {
  Link("../other/file", "/root/out");
  Link(folder_ + "/other", "/root/away");
  Link("../../..", "/root/a/b/high");
  for (const char* path :
       {"/../other/file", "/a/../../other/file", "/out", "/away/file",
        "/a/b/high/other/file", "/a/b/high", "x/file", "/.."}) {
    EXPECT_THAT(Find(path), StatusIs(absl::StatusCode::kPermissionDenied))
        << path;
  }
  // Out of one and into another is allowed, also by "..".
  const PathRoot other = {folder_ + "/other", folder_ + "/other"};
  for (const char* path : {"/out", "/away/file", "/../other/file"}) {
    ASSERT_OK_AND_ASSIGN(
        const RootedPath found,
        FindBelow(root_.given + path, {root_, other}, GetParam()));
    EXPECT_EQ(found.path, folder_ + "/other/file");
    EXPECT_EQ(found.line.size(), 2u);
  }
}

TEST_P(RootedPathTest, TellsWhatIsMissingOrWrong) {
  Link("round", "/root/round");
  Link(folder_ + "/root/about", "/root/about");
  const auto code = [&](const std::string& below) {
    return Find(below).status().code();
  };
  EXPECT_EQ(code("/missing"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("/missing/../a/b/file"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("/a/b/file/.."), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("/a/b/file/more"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("/round"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code("/about"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code("/" + std::string(5000, 'x')),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(std::string("/a\0/b", 5)), absl::StatusCode::kInvalidArgument);
  for (const char* path : {"", "a", "./root"}) {
    EXPECT_THAT(FindBelow(path, {root_}, GetParam()),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(FindBelow("/", {}, GetParam()),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_P(RootedPathTest, TellsTheKernelsState) {
  const std::vector<PathRoot> all = {{"/", "/"}};
  for (const char* path : {"/proc/version", "/proc", "/sys/kernel"}) {
    ASSERT_OK_AND_ASSIGN(const RootedPath found,
                         FindBelow(path, all, GetParam()));
    EXPECT_TRUE(found.is_kernel_state) << path;
  }
  ASSERT_OK_AND_ASSIGN(const RootedPath file,
                       FindBelow(root_.given + "/a/b/file", all, GetParam()));
  EXPECT_FALSE(file.is_kernel_state);
  // Links there lead anywhere.
  for (const char* path : {"/proc/self/root/etc", "/proc/self/cwd",
                           "/proc/self/exe", "/proc/self/fd/0"}) {
    EXPECT_THAT(FindBelow(path, all, GetParam()), ::testing::Not(IsOk()));
  }
}

TEST(IsSameOrBelowTest, ComparesWholeComponents) {
  EXPECT_TRUE(IsSameOrBelow("/a/b", "/a"));
  EXPECT_TRUE(IsSameOrBelow("/a", "/a/"));
  EXPECT_TRUE(IsSameOrBelow("/a", "/"));
  EXPECT_TRUE(IsSameOrBelow("/", "/"));
  EXPECT_FALSE(IsSameOrBelow("/ab", "/a"));
  EXPECT_FALSE(IsSameOrBelow("/", "/a"));
}

}  // namespace
}  // namespace comera::worker
