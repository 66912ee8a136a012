// Checks which names mounts give to a folder.

#include "worker/data/mount_table.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(MountTableTest, AFolderHasANameByEachMount) {
  const MountTable table = MountTable::Parse(
      "22 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/a rw\n"
      "23 22 8:2 / /var rw - ext4 /dev/b rw\n"
      "24 22 8:2 /lib /srv/a\\040b rw - ext4 /dev/b rw\n"
      "25 22 8:2 /lib/comera/jobs /srv/jobs rw - ext4 /dev/b rw\n"
      "26 22 8:2 /log /srv/log rw - ext4 /dev/b rw\n"
      "27 22 0:21 / /proc rw - proc proc rw\n"
      "28 22 0:22 / /srv/jail/sys rw - sysfs sysfs rw\n");
  EXPECT_THAT(
      table.NamesOf("/var/lib/comera"),
      UnorderedElementsAre("/var/lib/comera", "/srv/a b/comera", "/srv/jobs"));
  EXPECT_THAT(table.NamesOf("/etc/key"), ElementsAre("/etc/key"));
  EXPECT_THAT(table.NamesOf("/srv/a b"),
              UnorderedElementsAre("/var/lib", "/srv/a b", "/srv/jobs"));
  EXPECT_THAT(table.kernel_state(), ElementsAre("/proc", "/srv/jail/sys"));
}

TEST(MountTableTest, TheLastMountOfAPointCounts) {
  const MountTable table = MountTable::Parse(
      "1 0 8:1 / / rw - ext4 a rw\n"
      "2 1 8:1 /old /data rw - ext4 a rw\n"
      "3 1 8:1 /new /data rw - ext4 a rw\n");
  EXPECT_THAT(table.NamesOf("/data/x"),
              UnorderedElementsAre("/new/x", "/data/x"));
}

TEST(MountTableTest, AMountMayShowAFolderThatIsGone) {
  const MountTable table = MountTable::Parse(
      "1 0 8:1 / / rw - ext4 a rw\n"
      "2 1 8:1 /old//deleted /data rw - ext4 a rw\n");
  EXPECT_THAT(table.NamesOf("/data/x"),
              UnorderedElementsAre("/data/x", "/old/deleted/x"));
  EXPECT_THAT(table.NamesOf("/old/deleted/x"),
              UnorderedElementsAre("/data/x", "/old/deleted/x"));
}

TEST(MountTableTest, MalformedLinesArePassedOver) {
  for (const char* text : {"", "\n", "1 2 3 - 4 5", "1 0 8:1 / / rw ext4",
                           "1 0 8:1 / / rw -", "- - - - - -"}) {
    const MountTable table = MountTable::Parse(text);
    EXPECT_THAT(table.NamesOf("/a"), IsEmpty()) << text;
    EXPECT_THAT(table.kernel_state(), IsEmpty()) << text;
  }
  EXPECT_THAT(MountTable::Read("/no/such/table"),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(MountTableTest, TheMachinesOwnTableIsRead) {
  ASSERT_OK_AND_ASSIGN(const MountTable table,
                       MountTable::Read("/proc/self/mountinfo"));
  EXPECT_THAT(table.kernel_state(), ::testing::Contains("/proc"));
}

}  // namespace
}  // namespace comera::worker
