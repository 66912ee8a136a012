// Tests parsing and searching of lists of files.
#include "server/dataset/dataset_manifest.h"

#include <string>
#include <vector>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

google::protobuf::RepeatedPtrField<v1::DatasetFile> Files(
    const std::vector<std::string>& paths) {
  google::protobuf::RepeatedPtrField<v1::DatasetFile> files;
  for (const std::string& path : paths) {
    v1::DatasetFile* file = files.Add();
    file->set_path(path);
    file->set_size_bytes(10);
    file->set_sha256(Sha256Hex(path));
  }
  return files;
}

TEST(DatasetManifestTest, IsSortedAndFindsFilesAndFolders) {
  ASSERT_OK_AND_ASSIGN(
      const v1::DatasetManifest manifest,
      MakeManifest(Files({"b/c", "a", "b-x", "b/a/d"}), ManifestLimits()));
  EXPECT_EQ(manifest.files(0).path(), "a");
  EXPECT_EQ(TotalBytes(manifest), 40);
  EXPECT_NE(FindFile(manifest, "b/a/d"), nullptr);
  EXPECT_EQ(FindFile(manifest, "b"), nullptr);
  EXPECT_EQ(FindFile(manifest, "zz"), nullptr);
  EXPECT_TRUE(HasFolder(manifest, ""));
  EXPECT_TRUE(HasFolder(manifest, "b"));
  EXPECT_TRUE(HasFolder(manifest, "b/a"));
  EXPECT_FALSE(HasFolder(manifest, "a"));
  EXPECT_FALSE(HasFolder(manifest, "b/"));
  EXPECT_TRUE(HasPath(manifest, "b/c", PathKind::kFile));
  EXPECT_FALSE(HasPath(manifest, "b", PathKind::kFile));
  EXPECT_FALSE(HasPath(manifest, "b/*", PathKind::kFile));
  EXPECT_TRUE(HasPath(manifest, "b", PathKind::kFileOrFolder));
  EXPECT_TRUE(HasPath(manifest, "a", PathKind::kFileOrFolder));
  EXPECT_TRUE(HasPath(manifest, "b/[bc]", PathKind::kFiles));
  EXPECT_TRUE(HasPath(manifest, "a", PathKind::kFiles));
  EXPECT_FALSE(HasPath(manifest, "b", PathKind::kFiles));
  EXPECT_FALSE(HasPath(manifest, "z*", PathKind::kFiles));
  // The order in which files are named makes no difference.
  ASSERT_OK_AND_ASSIGN(
      const v1::DatasetManifest other,
      MakeManifest(Files({"b/a/d", "b-x", "a", "b/c"}), ManifestLimits()));
  EXPECT_EQ(manifest.SerializeAsString(), other.SerializeAsString());
}

TEST(DatasetManifestTest, RefusesHostileFiles) {
  const auto refused = [](auto files, Code code, const char* why) {
    ManifestLimits limits;
    limits.max_files = 3;
    limits.max_bytes = 25;
    EXPECT_THAT(MakeManifest(files, limits).status(),
                StatusIs(code, HasSubstr(why)));
  };
  refused(Files({}), Code::kInvalidArgument, "files: missing");
  refused(Files({"a", "a"}), Code::kInvalidArgument, "a is there twice");
  refused(Files({"a", "a/b"}), Code::kInvalidArgument, "a is a file");
  refused(Files({"a", "/etc/passwd"}), Code::kInvalidArgument, "files[1].path");
  refused(Files({"../x"}), Code::kInvalidArgument, "files[0].path");
  refused(Files({"a", "b", "c", "d"}), Code::kResourceExhausted, "at most 3");
  refused(Files({"a", "b", "c"}), Code::kResourceExhausted, "at most 25");
  auto files = Files({"a", "b"});
  files[0].set_size_bytes(-1);
  refused(files, Code::kInvalidArgument, "files[0].size_bytes");
  // Sizes whose sum is beyond 64 bits.
  files[0].set_size_bytes(INT64_MAX);
  files[1].set_size_bytes(INT64_MAX);
  refused(files, Code::kResourceExhausted, "at most 25");
  files = Files({"a"});
  files[0].set_sha256("../../etc/passwd");
  refused(files, Code::kInvalidArgument, "files[0].sha256");
}

// Between a file and what claims to be in it there may be many that sort
// between them.
TEST(DatasetManifestTest, NoFileIsAFolderWhateverLiesBetween) {
  const auto check = [](const std::vector<std::string>& paths) {
    return MakeManifest(Files(paths), ManifestLimits()).status();
  };
  EXPECT_OK(check({"a", "a-b", "a-b-c", "a.", "a0/x", "a0.x", "b/a", "b/ab"}));
  EXPECT_OK(check({"a/b", "a/b.c", "a/bc/d", "ab"}));
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{"a", "a-b", "a-b-c", "a/c"},
        {"a", "a!", "a!!", "a!/x", "b"},
        {"x/y", "x/y-", "x/y/z/w"},
        {"a", "a.b/c", "a/b/c/d"}}) {
    EXPECT_THAT(check(paths), StatusIs(Code::kInvalidArgument,
                                       HasSubstr("is a file, and the folder")));
  }
  EXPECT_THAT(
      check({"a/b", "a/b-c", "a/b"}),
      StatusIs(Code::kInvalidArgument, HasSubstr("a/b is there twice")));
}

TEST(DatasetManifestTest, DamagedBytesAreNone) {
  EXPECT_THAT(ParseManifest("\xff\xff"), StatusIs(Code::kDataLoss));
}

}  // namespace
}  // namespace comera::server
