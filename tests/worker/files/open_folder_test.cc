// Checks that nobody who writes below a root leads the daemon out of it.

#include "worker/files/open_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Code = absl::StatusCode;

class OpenFolderTest : public ::testing::Test {
 protected:
  OpenFolderTest() {
    folder_ = ::testing::TempDir() + "/folder-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    fs::create_directories(folder_ + "/job/work");
    fs::create_directories(folder_ + "/victim");
    Write("/victim/file", "secret");
  }
  ~OpenFolderTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + name) << text;
  }
  std::string Text(const std::string& name) {
    const auto text = ReadFile(folder_ + name);
    return text.ok() ? *text : text.status().ToString();
  }
  PathBelow Below(const std::string& below) {
    return {folder_ + "/job", below};
  }
  static std::string Contents(const PlainFile& file) {
    std::string all;
    EXPECT_OK(file.Read(0, [&](std::string_view data) {
      all.append(data);
      return absl::OkStatus();
    }));
    return all;
  }

  std::string folder_;
};

TEST(PathBelowTest, HasPartsAndAWhole) {
  const PathBelow root = {"/data/jobs/a", ""};
  EXPECT_EQ(root.ToString(), "/data/jobs/a");
  const PathBelow file = root.Child("work").Child("state");
  EXPECT_EQ(file.ToString(), "/data/jobs/a/work/state");
  EXPECT_EQ(file.root, "/data/jobs/a");
  EXPECT_EQ(file.Name(), "state");
  EXPECT_EQ(file.Parent().below, "work");
  EXPECT_EQ(file.Parent().Name(), "work");
  EXPECT_EQ(file.Parent().Parent().ToString(), "/data/jobs/a");
}

TEST_F(OpenFolderTest, FoldersAreMadeAndOpened) {
  EXPECT_THAT(OpenFolder::Open(Below("work/a/b")).status(),
              StatusIs(Code::kNotFound, HasSubstr("/job/work/a/b")));
  EXPECT_THAT(OpenFolder::Open({folder_ + "/none", "work"}).status(),
              StatusIs(Code::kNotFound, HasSubstr("/none")));
  ASSERT_OK(OpenFolder::Make(Below("work/a/b")));
  ASSERT_OK(OpenFolder::Make({folder_ + "/new/job", "work"}));
  EXPECT_TRUE(fs::is_directory(folder_ + "/new/job/work"));
  ASSERT_OK_AND_ASSIGN(const OpenFolder a, OpenFolder::Open(Below("work/a")));
  Write("/job/work/a/b/file", "text");
  ASSERT_OK_AND_ASSIGN(const OpenFolder b, a.Child("b"));
  EXPECT_EQ(b.path().ToString(), folder_ + "/job/work/a/b");
  EXPECT_EQ(b.SizeOf("file"), 4);
  EXPECT_EQ(a.SizeOf("b"), std::nullopt);
  EXPECT_THAT(a.Child("c").status(), StatusIs(Code::kNotFound));
}

// The operator may have put the data on another disk.
TEST_F(OpenFolderTest, LinksToTheRootAreFollowed) {
  fs::create_symlink(folder_ + "/job", folder_ + "/by_link");
  Write("/job/work/file", "text");
  ASSERT_OK_AND_ASSIGN(const PlainFile file,
                       PlainFile::Open({folder_ + "/by_link", "work/file"}));
  EXPECT_EQ(Contents(file), "text");
  ASSERT_OK(OpenFolder::Make({folder_ + "/by_link", "work/made"}));
  EXPECT_TRUE(fs::is_directory(folder_ + "/job/work/made"));
}

TEST_F(OpenFolderTest, LinksBelowTheRootAreNot) {
  fs::create_symlink(folder_ + "/victim", folder_ + "/job/work/out");
  fs::create_symlink("../../victim", folder_ + "/job/work/up");
  fs::create_directory(folder_ + "/job/work/real");
  fs::create_symlink("real", folder_ + "/job/work/within");
  const auto refused =
      StatusIs(Code::kFailedPrecondition,
               AllOf(HasSubstr(folder_ + "/job/work/"), HasSubstr("link")));
  for (const char* path : {"work/out", "work/up", "work/within"}) {
    EXPECT_THAT(OpenFolder::Open(Below(path)).status(), refused);
    EXPECT_THAT(OpenFolder::Make(Below(path)).status(), refused);
    EXPECT_THAT(OpenFolder::Open(Below(path).Child("more")).status(), refused);
    EXPECT_THAT(OpenFolder::Make(Below(path).Child("more")).status(), refused);
    EXPECT_THAT(PlainFile::Open(Below(path).Child("file")).status(), refused);
    EXPECT_THAT(PlainFile::Open(Below(path)).status(), refused);
  }
  EXPECT_FALSE(fs::exists(folder_ + "/victim/more"));
  ASSERT_OK_AND_ASSIGN(const OpenFolder work, OpenFolder::Open(Below("work")));
  EXPECT_THAT(work.Child("out").status(), refused);
  EXPECT_THAT(work.OpenFile("out", O_RDONLY).status(), refused);
  EXPECT_EQ(work.SizeOf("out"), std::nullopt);
}

// A second member of the gang may still run while the first one's model is
// sent.
TEST_F(OpenFolderTest, AFolderThatIsSwappedAfterwardsLeadsNowhere) {
  fs::create_directory(folder_ + "/job/work/model");
  Write("/job/work/model/file", "own");
  ASSERT_OK_AND_ASSIGN(const OpenFolder model,
                       OpenFolder::Open(Below("work/model")));
  fs::rename(folder_ + "/job/work/model", folder_ + "/job/work/moved");
  fs::create_symlink(folder_ + "/victim", folder_ + "/job/work/model");
  ASSERT_OK_AND_ASSIGN(const PlainFile file, PlainFile::Open(model, "file"));
  EXPECT_EQ(Contents(file), "own");
  EXPECT_EQ(model.SizeOf("file"), 3);
  EXPECT_OK(model.MakeFile("made"));
  EXPECT_OK(model.Rename("made", "renamed"));
  EXPECT_OK(model.Sync());
  ASSERT_OK_AND_ASSIGN(const auto names, model.List());
  EXPECT_THAT(names, UnorderedElementsAre("file", "renamed"));
  EXPECT_OK(model.Remove("file"));
  EXPECT_EQ(Text("/victim/file"), "secret");
  EXPECT_FALSE(fs::exists(folder_ + "/victim/renamed"));
}

TEST_F(OpenFolderTest, WhatIsWrittenReplacesLinks) {
  ASSERT_OK_AND_ASSIGN(const OpenFolder work, OpenFolder::Open(Below("work")));
  fs::create_symlink(folder_ + "/victim/file", folder_ + "/job/work/link");
  fs::create_symlink(folder_ + "/victim/new", folder_ + "/job/work/dangling");
  // Something of that name is there.
  EXPECT_OK(work.MakeFile("link"));
  EXPECT_OK(work.MakeFile("dangling"));
  EXPECT_FALSE(fs::exists(folder_ + "/victim/new"));
  Write("/job/work/own", "own");
  EXPECT_OK(work.Rename("own", "link"));
  EXPECT_EQ(Text("/job/work/link"), "own");
  EXPECT_OK(work.Remove("dangling"));
  EXPECT_OK(work.Remove("dangling"));
  EXPECT_EQ(Text("/victim/file"), "secret");
}

TEST_F(OpenFolderTest, NamesHaveOnePart) {
  ASSERT_OK_AND_ASSIGN(const OpenFolder work, OpenFolder::Open(Below("work")));
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."),
        std::string("../file"), std::string("a/b"), folder_ + "/victim/file",
        std::string("a\0b", 3)}) {
    const auto refused = StatusIs(Code::kInvalidArgument);
    EXPECT_THAT(work.Child(name).status(), refused);
    EXPECT_THAT(work.OpenFile(name, O_RDONLY).status(), refused);
    EXPECT_THAT(work.MakeFile(name), refused);
    EXPECT_THAT(work.Remove(name), refused);
    EXPECT_THAT(work.Rename(name, "x"), refused);
    EXPECT_THAT(work.Rename("x", name), refused);
    EXPECT_EQ(work.SizeOf(name), std::nullopt);
  }
}

TEST_F(OpenFolderTest, AFileIsToldByItselfAndNotByItsName) {
  ASSERT_OK_AND_ASSIGN(const OpenFolder work, OpenFolder::Open(Below("work")));
  Write("/job/work/file", "one");
  ASSERT_OK_AND_ASSIGN(const Descriptor one, work.OpenFile("file", O_RDONLY));
  EXPECT_TRUE(work.IsOnlyNameOf("file", one.get()));
  EXPECT_FALSE(work.IsOnlyNameOf("other", one.get()));
  fs::create_hard_link(folder_ + "/job/work/file", folder_ + "/job/work/twice");
  EXPECT_FALSE(work.IsOnlyNameOf("file", one.get()));
  fs::remove(folder_ + "/job/work/file");
  Write("/job/work/file", "two");
  EXPECT_FALSE(work.IsOnlyNameOf("file", one.get()));
}

TEST_F(OpenFolderTest, OnlyPlainFilesAreRead) {
  ASSERT_EQ(mkfifo((folder_ + "/job/work/pipe").c_str(), 0600), 0);
  for (const char* path : {"work/pipe", "work"}) {
    EXPECT_THAT(PlainFile::Open(Below(path)).status(),
                StatusIs(Code::kFailedPrecondition,
                         AllOf(HasSubstr(path), HasSubstr("plain file"))));
  }
  EXPECT_THAT(PlainFile::Open(Below("work/none")).status(),
              StatusIs(Code::kNotFound));
}

TEST_F(OpenFolderTest, AFileIsReadFromAnyOffsetToTheEndThatItHad) {
  const std::string text((size_t{2} << 20) + 5, 't');
  Write("/job/work/file", text);
  ASSERT_OK_AND_ASSIGN(const PlainFile file,
                       PlainFile::Open(Below("work/file")));
  std::ofstream(folder_ + "/job/work/file", std::ios::app) << "more";
  EXPECT_EQ(file.size(), static_cast<int64_t>(text.size()));
  EXPECT_EQ(Contents(file), text);
  EXPECT_THAT(file.Read(-1, nullptr), StatusIs(Code::kOutOfRange));
  EXPECT_THAT(file.Read(file.size() + 1, nullptr), StatusIs(Code::kOutOfRange));
  EXPECT_OK(file.Read(file.size(), nullptr));
  fs::resize_file(folder_ + "/job/work/file", 3);
  EXPECT_THAT(file.Read(0, [](std::string_view) { return absl::OkStatus(); }),
              StatusIs(Code::kDataLoss, Not(HasSubstr("ttt"))));
}

}  // namespace
}  // namespace comera::worker
