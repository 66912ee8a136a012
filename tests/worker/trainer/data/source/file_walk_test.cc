// Tests the order and the limits of a walk over a directory.
#include "worker/trainer/data/source/file_walk.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Found(const std::string& root,
                               const std::vector<std::string>& globs) {
  const auto files = FindFiles(root, globs);
  EXPECT_OK(files);
  std::vector<std::string> names;
  for (const FoundFile& file : *files) {
    EXPECT_EQ(file.path, root + "/" + file.relative_path);
    names.push_back(file.relative_path);
  }
  return names;
}

TEST(FindFilesTest, Globs) {
  TempFolder folder;
  // Written in an order that is not the sorted one.
  for (const char* name :
       {"z.py", "a/b/c.py", "a/b.h", "a/x.c", "a.py", ".h.py"}) {
    folder.Write(name, "text");
  }
  const std::string& root = folder.path();
  EXPECT_THAT(Found(root, {"*.py"}),
              ElementsAre(".h.py", "a.py", "a/b/c.py", "z.py"));
  EXPECT_THAT(Found(root, {"*.h", "x.?"}), ElementsAre("a/b.h", "a/x.c"));
  EXPECT_THAT(Found(root, {"a/*.py"}), ElementsAre("a/b/c.py"));
  EXPECT_THAT(Found(root, {"[ab].py"}), ElementsAre("a.py"));
  EXPECT_THAT(Found(root, {}), ElementsAre(".h.py", "a.py", "a/b.h", "a/b/c.py",
                                           "a/x.c", "z.py"));
  EXPECT_THAT(Found(root, {"*.rs"}), IsEmpty());
}

TEST(FindFilesTest, SizeAndTime) {
  TempFolder folder;
  folder.Write("f", "12345");
  ASSERT_OK_AND_ASSIGN(const auto files, FindFiles(folder.path(), {}));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].size, 5);
  EXPECT_GT(files[0].modified_ns, 0);
}

TEST(FindFilesTest, LinksAreNotFollowed) {
  TempFolder outside;
  outside.Write("secret.py", "x");
  TempFolder folder;
  folder.Write("in/a.py", "x");
  std::filesystem::create_symlink(outside.path(), folder / "folder");
  std::filesystem::create_symlink(outside / "secret.py", folder / "file.py");
  std::filesystem::create_symlink(folder.path(), folder / "in/loop");
  EXPECT_THAT(Found(folder.path(), {}), ElementsAre("in/a.py"));
  // The root itself may be one.
  std::filesystem::create_symlink(folder / "in", outside / "link");
  EXPECT_THAT(Found(outside / "link", {}), ElementsAre("a.py"));
}

TEST(FindFilesTest, OnlyRegularFiles) {
  TempFolder folder;
  folder.Write("a.py", "x");
  ASSERT_EQ(mkfifo((folder / "fifo.py").c_str(), 0600), 0);
  EXPECT_THAT(Found(folder.path(), {"*.py"}), ElementsAre("a.py"));
}

TEST(FindFilesTest, BadRootsAndGlobs) {
  TempFolder folder;
  EXPECT_THAT(FindFiles(folder / "none", {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_THAT(
      FindFiles(folder.Write("f", "x"), {}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a folder")));
  EXPECT_THAT(FindFiles(folder.path(), {std::string(300, '*')}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("globs")));
  EXPECT_THAT(FindFiles(folder.path(), {""}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
