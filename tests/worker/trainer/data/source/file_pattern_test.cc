// Tests which files a pattern matches.
#include "worker/trainer/data/source/file_pattern.h"

#include <sys/stat.h>
#include <unistd.h>

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

class FindMatchesTest : public ::testing::Test {
 protected:
  // The matches of `pattern` below the folder, as paths below it.
  std::vector<std::string> Found(const std::string& pattern) {
    const auto files = FindMatches(folder_ / pattern);
    EXPECT_OK(files);
    std::vector<std::string> names;
    for (const std::string& file : *files) {
      EXPECT_EQ(file.substr(0, folder_.path().size() + 1), folder_ / "");
      names.push_back(file.substr(folder_.path().size() + 1));
    }
    return names;
  }

  TempFolder folder_;
};

TEST_F(FindMatchesTest, Wildcards) {
  // Written in an order that is not the sorted one.
  for (const char* name : {"z.txt", "b/2.txt", "a/1.txt", "a/b/3.txt", "a.txt",
                           "a/x.md", ".h.txt", "b/[c].txt"}) {
    folder_.Write(name, "text");
  }
  EXPECT_THAT(Found("*.txt"), ElementsAre("a.txt", "z.txt"));
  EXPECT_THAT(Found("?.txt"), ElementsAre("a.txt", "z.txt"));
  EXPECT_THAT(Found("[b-z].txt"), ElementsAre("z.txt"));
  EXPECT_THAT(Found(".*.txt"), ElementsAre(".h.txt"));
  EXPECT_THAT(Found("*/*.txt"), ElementsAre("a/1.txt", "b/2.txt", "b/[c].txt"));
  EXPECT_THAT(Found("*/1.txt"), ElementsAre("a/1.txt"));
  EXPECT_THAT(Found("a/*"), ElementsAre("a/1.txt", "a/x.md"));
  EXPECT_THAT(Found("a*/b/*"), ElementsAre("a/b/3.txt"));
  EXPECT_THAT(Found("b/[c].txt"), ElementsAre("b/[c].txt"));
  EXPECT_THAT(Found("*.rs"), IsEmpty());
  EXPECT_THAT(Found("none/*"), IsEmpty());
  EXPECT_THAT(Found("a.txt/*"), IsEmpty());
}

TEST_F(FindMatchesTest, LinksBelowTheFolderAreNotFollowed) {
  TempFolder outside;
  outside.Write("secret.txt", "x");
  folder_.Write("in/a.txt", "x");
  std::filesystem::create_symlink(outside.path(), folder_ / "link");
  std::filesystem::create_symlink(outside / "secret.txt", folder_ / "in/b.txt");
  EXPECT_THAT(Found("*/*.txt"), ElementsAre("in/a.txt"));
  // The folder itself may be one.
  EXPECT_THAT(Found("link/*.txt"), ElementsAre("link/secret.txt"));
}

TEST_F(FindMatchesTest, OnlyRegularFiles) {
  folder_.Write("a.txt", "x");
  folder_.Write("b.txt/c", "x");
  ASSERT_EQ(mkfifo((folder_ / "fifo.txt").c_str(), 0600), 0);
  EXPECT_THAT(Found("*.txt"), ElementsAre("a.txt"));
}

TEST_F(FindMatchesTest, LongParts) {
  EXPECT_THAT(
      FindMatches(folder_ / std::string(257, '*')),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("257 bytes")));
}

}  // namespace
}  // namespace comera::trainer
