// Tests leaving and finding addresses.
#include "worker/collective/rendezvous.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::collective {
namespace {

using ::testing::ElementsAre;

std::string NewFolder() {
  std::string folder = testing::TempDir() + "/rendezvous-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

TEST(FileRendezvousTest, AnotherHandleSeesWhatWasSet) {
  const std::string folder = NewFolder() + "/made/below";
  ASSERT_OK_AND_ASSIGN(FileRendezvous one, FileRendezvous::Open(folder));
  ASSERT_OK_AND_ASSIGN(FileRendezvous two, FileRendezvous::Open(folder));
  const std::string value("a\0b\n", 4);
  ASSERT_OK(one.Set("rank/0", value));
  ASSERT_OK_AND_ASSIGN(std::string got,
                       two.Get("rank/0", absl::ZeroDuration()));
  EXPECT_EQ(got, value);
}

// A gang's key is among the entries. A member's user may be another one than
// that of the worker that writes an entry, and has the folder then.
TEST(FileRendezvousTest, OnlyTheFoldersOwnerReadsTheEntries) {
  const std::string folder = NewFolder() + "/open";
  ASSERT_EQ(mkdir(folder.c_str(), 0777), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  const mode_t mask = umask(077);
  ASSERT_OK_AND_ASSIGN(FileRendezvous one, FileRendezvous::Open(folder));
  EXPECT_OK(one.Set("gang-key", "secret"));
  umask(mask);
  struct stat found = {};
  ASSERT_EQ(stat(folder.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
  ASSERT_EQ(stat((folder + "/gang-key").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0644u);
}

TEST(FileRendezvousTest, GetWaitsForTheKey) {
  const std::string folder = NewFolder();
  ASSERT_OK_AND_ASSIGN(FileRendezvous one, FileRendezvous::Open(folder));
  std::thread setter([&] { EXPECT_OK(one.Set("late", "")); });
  ASSERT_OK_AND_ASSIGN(FileRendezvous two, FileRendezvous::Open(folder));
  EXPECT_OK(two.Get("late", absl::Seconds(30)));
  setter.join();
}

TEST(FileRendezvousTest, AbsentKeyIsATimeOut) {
  ASSERT_OK_AND_ASSIGN(FileRendezvous one, FileRendezvous::Open(NewFolder()));
  EXPECT_THAT(one.Get("never", absl::Milliseconds(5)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(FileRendezvousTest, AKeyNeverChanges) {
  ASSERT_OK_AND_ASSIGN(FileRendezvous one, FileRendezvous::Open(NewFolder()));
  ASSERT_OK(one.Set("key", "first"));
  EXPECT_OK(one.Set("key", "first"));
  EXPECT_THAT(one.Set("key", "second"),
              StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_OK_AND_ASSIGN(std::string got, one.Get("key", absl::ZeroDuration()));
  EXPECT_EQ(got, "first");
}

TEST(FileRendezvousTest, KeysMayHoldAnyBytesAndStrangersArePassedOver) {
  const std::string folder = NewFolder();
  ASSERT_OK_AND_ASSIGN(FileRendezvous one, FileRendezvous::Open(folder));
  const std::string odd("../%/\0\xff", 7);
  ASSERT_OK(one.Set(odd, "1"));
  ASSERT_OK(one.Set("plain-_9", "2"));
  std::ofstream(folder + "/.hidden") << "x";
  std::ofstream(folder + "/bad%zz") << "x";
  std::ofstream(folder + "/not.encoded") << "x";
  ASSERT_OK_AND_ASSIGN(std::vector<std::string> keys, one.Keys());
  EXPECT_THAT(keys, ElementsAre(odd, "plain-_9"));
}

// A member that runs a program of a user's own may put anything there.
TEST(FileRendezvousTest, NothingButASmallPlainFileIsRead) {
  const std::string folder = NewFolder();
  ASSERT_OK_AND_ASSIGN(FileRendezvous rendezvous, FileRendezvous::Open(folder));
  std::ofstream(folder + "/.secret") << "secret";
  ASSERT_EQ(symlink(".secret", (folder + "/link").c_str()), 0);
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((folder + "/folder").c_str(), 0700), 0);
  std::ofstream(folder + "/large") << "x";
  ASSERT_EQ(truncate((folder + "/large").c_str(), int64_t{1} << 40), 0);
  for (const char* key : {"link", "pipe", "folder", "large"}) {
    EXPECT_FALSE(rendezvous.Get(key, absl::ZeroDuration()).ok()) << key;
    EXPECT_FALSE(rendezvous.Set(key, "mine").ok()) << key;
  }
}

TEST(FileRendezvousTest, RefusesKeysAndValuesOutOfBounds) {
  ASSERT_OK_AND_ASSIGN(FileRendezvous one, FileRendezvous::Open(NewFolder()));
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(one.Set("", "x"), refused);
  EXPECT_THAT(one.Get("", absl::ZeroDuration()), refused);
  EXPECT_OK(one.Set(std::string(Rendezvous::kMaxKeyBytes, '/'), "x"));
  EXPECT_THAT(one.Set(std::string(Rendezvous::kMaxKeyBytes + 1, 'k'), "x"),
              refused);
  EXPECT_THAT(one.Set("k", std::string(Rendezvous::kMaxValueBytes + 1, 'v')),
              refused);
}

}  // namespace
}  // namespace comera::collective
