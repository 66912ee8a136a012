// Tests whose folders a daemon takes for its own.
#include "common/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"

namespace comera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckOwnFolderTest, OwnFoldersAndRootsAreTaken) {
  const std::string folder = ::testing::TempDir() + "/own";
  ASSERT_OK(MakeDirectories(folder));
  EXPECT_OK(CheckOwnFolder(folder));
  EXPECT_OK(CheckOwnFolder("/"));
  EXPECT_THAT(CheckOwnFolder(folder + "/missing"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(CheckOwnFolderTest, SomebodyElsesIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const std::string folder = ::testing::TempDir() + "/given";
  ASSERT_OK(MakeDirectories(folder));
  ASSERT_EQ(chown(folder.c_str(), 12345, -1), 0);
  EXPECT_THAT(CheckOwnFolder(folder),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(folder), HasSubstr("12345"),
                             HasSubstr("chown -R 0"))));
  // Also by a link, behind which the owner may put something else.
  const std::string link = ::testing::TempDir() + "/link";
  unlink(link.c_str());
  ASSERT_EQ(symlink(folder.c_str(), link.c_str()), 0);
  EXPECT_THAT(CheckOwnFolder(link),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace comera
