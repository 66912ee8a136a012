// Tests that prepared data are reused and never half written.
#include "worker/trainer/data/source/cache_file.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/event.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

// One use of a cache by a process: what it got and whether it had to build.
struct Use {
  std::string value;
  int builds = 0;
  std::vector<std::string> activity;
  absl::Status status;
};

Use Get(const std::string& directory, const std::string& key,
        const std::string& builds = "built") {
  Use use;
  FileCache cache(directory, [&use](const std::string& what) {
    use.activity.push_back(what);
  });
  use.status = cache.GetOrBuild(
      "thing", key,
      [&]() -> absl::StatusOr<std::string> {
        ++use.builds;
        return builds;
      },
      [&](absl::string_view bytes) {
        use.value = std::string(bytes);
        return bytes == "refused" ? absl::DataLossError("refused")
                                  : absl::OkStatus();
      });
  return use;
}

// The one data file of a cache folder.
std::string DataFile(const std::string& directory) {
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string path = entry.path().string();
    if (!absl::EndsWith(path, ".lock")) {
      EXPECT_EQ(file, "") << "also " << path;
      file = path;
    }
  }
  return file;
}

TEST(FileCacheTest, BuildsOncePerKey) {
  TempFolder folder;
  const std::string directory = folder / "deep/cache";
  EXPECT_EQ(Get(directory, "key", "one").builds, 1);
  const Use again = Get(directory, "key", "two");
  EXPECT_EQ(again.builds, 0);
  EXPECT_EQ(again.value, "one");
  EXPECT_EQ(Get(directory, "other", "three").value, "three");
}

TEST(FileCacheTest, NoFolderNoCache) {
  EXPECT_EQ(Get("", "key").builds, 1);
  EXPECT_EQ(Get("", "key").builds, 1);
}

TEST(FileCacheTest, DamagedFilesAreBuiltAgain) {
  TempFolder folder;
  Get(folder.path(), "key", "value");
  const std::string file = DataFile(folder.path());
  ASSERT_OK_AND_ASSIGN(const std::string good, ReadFile(file));
  std::vector<std::string> damaged = {
      "", "x", good.substr(0, 20), good.substr(0, good.size() - 1), good + "x"};
  for (size_t i = 0; i < good.size(); ++i) {
    damaged.push_back(good);
    damaged.back()[i] ^= 4;
  }
  for (const std::string& contents : damaged) {
    ASSERT_OK(WriteFileAtomically(file, contents));
    const Use use = Get(folder.path(), "key", "value");
    ASSERT_EQ(use.builds, 1) << contents;
    ASSERT_EQ(use.value, "value");
    ASSERT_FALSE(use.activity.empty());
    EXPECT_THAT(use.activity[0], HasSubstr("not usable"));
    EXPECT_EQ(Get(folder.path(), "key").builds, 0);
  }
}

TEST(FileCacheTest, RefusedContentsAreNotKept) {
  TempFolder folder;
  EXPECT_THAT(Get(folder.path(), "key", "refused").status,
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(DataFile(folder.path()), "");
}

TEST(FileCacheTest, FailedBuildKeepsNothing) {
  TempFolder folder;
  FileCache cache(folder.path(), {});
  EXPECT_THAT(cache.GetOrBuild(
                  "thing", "key",
                  []() -> absl::StatusOr<std::string> {
                    return absl::NotFoundError("no corpus");
                  },
                  [](absl::string_view) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Get(folder.path(), "key").builds, 1);
}

TEST(FileCacheTest, UnusableFolderIsNoError) {
  TempFolder folder;
  const Use use = Get(folder.Write("file", "x") + "/below", "key");
  EXPECT_OK(use.status);
  EXPECT_EQ(use.builds, 1);
  EXPECT_FALSE(use.activity.empty());
}

TEST(FileCacheTest, SecondProcessWaitsAndReads) {
  TempFolder folder;
  Event building, second_waits;
  // Locks belong to open files, so two caches stand for two processes.
  std::thread first([&] {
    FileCache cache(folder.path(), {});
    EXPECT_OK(cache.GetOrBuild(
        "thing", "key",
        [&]() -> absl::StatusOr<std::string> {
          building.Notify();
          second_waits.Wait();
          return "first";
        },
        [](absl::string_view) { return absl::OkStatus(); }));
  });
  building.Wait();
  std::string value;
  FileCache cache(folder.path(), [&](const std::string& what) {
    EXPECT_THAT(what, HasSubstr("waiting"));
    if (!second_waits.HasHappened()) second_waits.Notify();
  });
  EXPECT_OK(cache.GetOrBuild(
      "thing", "key",
      []() -> absl::StatusOr<std::string> {
        ADD_FAILURE() << "built twice";
        return "second";
      },
      [&](absl::string_view bytes) {
        value = std::string(bytes);
        return absl::OkStatus();
      }));
  EXPECT_EQ(value, "first");
  first.join();
}

}  // namespace
}  // namespace comera::trainer
