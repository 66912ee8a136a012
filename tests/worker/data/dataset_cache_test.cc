// Checks downloading, resuming, sharing, eviction and views of cached blobs.

#include "worker/data/dataset_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/fake_blobs.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Lease = DatasetCache::Lease;

// A source that sends some bytes and then ends as it is told.
class Ending : public BlobSource {
 public:
  Ending(std::string data, absl::Status end)
      : data_(std::move(data)), end_(std::move(end)) {}
  absl::Status Fetch(const std::string&, int64_t offset,
                     const std::atomic<bool>&, const Sink& sink) override {
    const absl::Status status = sink(std::string_view(data_).substr(offset));
    return status.ok() ? end_ : status;
  }

 private:
  const std::string data_;
  const absl::Status end_;
};

class DatasetCacheTest : public ::testing::Test {
 protected:
  DatasetCacheTest() {
    folder_ = ::testing::TempDir() + "/cache_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    options_.min_free_bytes = 0;
    Open();
  }
  ~DatasetCacheTest() override {
    cache_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    cache_.reset();
    auto cache = DatasetCache::Open(folder_, options_);
    ASSERT_OK(cache);
    cache_ = *std::move(cache);
  }

  absl::Status Get(const std::string& data, Lease* lease) {
    return GetBlob(source_.Add(data), static_cast<int64_t>(data.size()), lease);
  }
  absl::Status GetBlob(const std::string& sha256, int64_t size, Lease* lease) {
    DatasetCache::Fetch fetch;
    fetch.source = &source_;
    fetch.cancelled = &cancelled_;
    const auto path = cache_->Get(sha256, size, fetch, lease);
    if (!path.ok()) return path.status();
    const auto contents = ReadFile(*path);
    EXPECT_EQ(Sha256Hex(*contents), sha256);
    return absl::OkStatus();
  }

  // Fetches a version, named by `name`, of what a URL has.
  absl::StatusOr<std::string> GetVersion(const std::string& name, int64_t size,
                                         BlobSource* source, Lease* lease) {
    DatasetCache::Fetch fetch;
    fetch.source = source;
    fetch.cancelled = &cancelled_;
    return cache_->GetVersion(Sha256Hex(name), size, fetch, lease);
  }
  int Files(const std::string& folder) const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(folder_ + "/" + folder)) {
      ++count;
    }
    return count;
  }

  std::string folder_;
  DatasetCache::Options options_;
  FakeBlobs source_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<DatasetCache> cache_;
};

TEST_F(DatasetCacheTest, FetchesOnceAlsoAcrossRestarts) {
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("hello", &lease));
    EXPECT_OK(Get("hello", &lease));
  }
  Open();
  Lease lease(cache_.get());
  EXPECT_OK(Get("hello", &lease));
  EXPECT_EQ(source_.offsets().size(), 1);
  EXPECT_EQ(cache_->used_bytes(), 5);
}

TEST_F(DatasetCacheTest, BrokenFetchGoesOnWhereItBroke) {
  source_.Break({3, 2});
  {
    Lease lease(cache_.get());
    EXPECT_THAT(Get("hello, world", &lease), StatusIs(Code::kUnavailable));
  }
  Open();
  Lease lease(cache_.get());
  EXPECT_THAT(Get("hello, world", &lease), StatusIs(Code::kUnavailable));
  EXPECT_OK(Get("hello, world", &lease));
  EXPECT_THAT(source_.offsets(), ElementsAre(0, 3, 5));
  EXPECT_EQ(cache_->used_bytes(), 12);
}

TEST_F(DatasetCacheTest, OtherBytesAreNotTaken) {
  Lease lease(cache_.get());
  const std::string sha256 = source_.Add("right");
  EXPECT_THAT(GetBlob(sha256, 4, &lease), StatusIs(Code::kDataLoss));
  EXPECT_THAT(GetBlob(sha256, 6, &lease), StatusIs(Code::kDataLoss));
  // A damaged partial file of unknown origin.
  ASSERT_OK(WriteFileAtomically(folder_ + "/partial/" + sha256, "wro"));
  EXPECT_THAT(GetBlob(sha256, 5, &lease), StatusIs(Code::kDataLoss));
  ASSERT_OK(
      WriteFileAtomically(folder_ + "/partial/" + sha256, "wrong, and long"));
  EXPECT_THAT(GetBlob(sha256, 5, &lease), StatusIs(Code::kUnavailable));
  EXPECT_OK(GetBlob(sha256, 5, &lease));
  EXPECT_THAT(GetBlob(Sha256Hex("none"), 4, &lease), StatusIs(Code::kNotFound));
  EXPECT_EQ(cache_->used_bytes(), 5);
}

TEST_F(DatasetCacheTest, OldestGoesFirstAndNothingInUse) {
  options_.max_bytes = 10;
  Open();
  std::optional<Lease> held(cache_.get());
  EXPECT_OK(Get("held", &*held));
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("old", &lease));
    EXPECT_OK(Get("new", &lease));
    // Everything in the cache is in use.
    EXPECT_THAT(Get("more", &lease),
                StatusIs(Code::kResourceExhausted, HasSubstr("in use")));
    EXPECT_THAT(Get("longer than the cache", &lease),
                StatusIs(Code::kResourceExhausted, HasSubstr("does not fit")));
  }
  {
    // Used again, so that it is younger than "new".
    Lease lease(cache_.get());
    EXPECT_OK(Get("old", &lease));
  }
  const size_t fetched = source_.offsets().size();
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("abc", &lease));
    EXPECT_OK(Get("old", &lease));
  }
  EXPECT_EQ(source_.offsets().size(), fetched + 1);
  EXPECT_EQ(cache_->used_bytes(), 10);
  held.reset();
  Lease lease(cache_.get());
  EXPECT_OK(Get("0123456789", &lease));
  EXPECT_EQ(cache_->used_bytes(), 10);
}

TEST_F(DatasetCacheTest, TheOrderOfUseOutlivesTheProcess) {
  for (const char* data : {"aaa", "bbb", "aaa"}) {
    Lease lease(cache_.get());
    EXPECT_OK(Get(data, &lease));
  }
  options_.max_bytes = 6;
  Open();
  Lease lease(cache_.get());
  EXPECT_OK(Get("ccc", &lease));
  const size_t fetched = source_.offsets().size();
  EXPECT_OK(Get("aaa", &lease));
  EXPECT_EQ(source_.offsets().size(), fetched);
}

TEST_F(DatasetCacheTest, ViewsNameBlobsUntilTheyGo) {
  options_.max_bytes = 10;
  Open();
  const std::string digest(64, 'd');
  const std::string path = cache_->View(digest) + "/a/b.txt";
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("hello", &lease));
    ASSERT_OK(cache_->Link(Sha256Hex("hello"), digest, "a/b.txt"));
    ASSERT_OK(cache_->Link(Sha256Hex("hello"), digest, "a/b.txt"));
    EXPECT_EQ(*ReadFile(path), "hello");
    // The modification time is the same whenever it is fetched, because what
    // members computed from the file is keyed by it.
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mtim.tv_sec, 1);
    EXPECT_EQ(info.st_mode & 0222, 0);
  }
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("0123456789", &lease));
    EXPECT_NE(access(path.c_str(), F_OK), 0);
    EXPECT_THAT(cache_->Link(Sha256Hex("hello"), digest, "a/b.txt"),
                StatusIs(Code::kInternal));
  }
  Open();
  EXPECT_FALSE(std::filesystem::exists(cache_->View(digest)));
}

TEST_F(DatasetCacheTest, AKeptViewsBlobsAreInUseAndGoWithTheirLinks) {
  options_.max_bytes = 10;
  Open();
  const std::string used(64, 'd'), unused(64, 'e');
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("hello", &lease));
    ASSERT_OK(cache_->Link(Sha256Hex("hello"), used, "a/b.txt"));
    EXPECT_OK(Get("other", &lease));
    ASSERT_OK(cache_->Link(Sha256Hex("other"), unused, "c.txt"));
  }
  options_.kept_views = {used};
  Open();
  const std::string path = cache_->View(used) + "/a/b.txt";
  EXPECT_EQ(*ReadFile(path), "hello");
  EXPECT_FALSE(std::filesystem::exists(cache_->View(unused)));
  {
    Lease kept(cache_.get()), lease(cache_.get());
    cache_->KeepView(used, &kept);
    // There is only as much room as the unused one leaves.
    EXPECT_OK(Get("01234", &lease));
    EXPECT_THAT(Get("9", &lease), StatusIs(Code::kResourceExhausted));
    EXPECT_EQ(*ReadFile(path), "hello");
  }
  Lease lease(cache_.get());
  EXPECT_OK(Get("abcdefghij", &lease));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(DatasetCacheTest, OneFetchForMany) {
  source_.Close();
  std::vector<std::thread> ranks;
  for (int i = 0; i < 4; ++i) {
    ranks.emplace_back([this] {
      Lease lease(cache_.get());
      EXPECT_OK(Get("shared", &lease));
    });
  }
  source_.WaitForFetches(1);
  source_.Open();
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(source_.offsets().size(), 1);
  EXPECT_EQ(cache_->used_bytes(), 6);
}

TEST_F(DatasetCacheTest, EqualContentsOfTwoNamesAreOneFile) {
  Ending hello("hello", absl::OkStatus());
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("hello", &lease));
  }
  const std::string path =
      folder_ + "/blobs/" + Sha256Hex("hello").substr(0, 2) + "/";
  struct stat before = {}, after = {};
  ASSERT_EQ(stat((path + Sha256Hex("hello")).c_str(), &before), 0);
  for (const char* name : {"one", "two"}) {
    Lease lease(cache_.get());
    ASSERT_OK_AND_ASSIGN(const std::string sha256,
                         GetVersion(name, 5, &hello, &lease));
    EXPECT_EQ(sha256, Sha256Hex("hello"));
    // What is there stays, since other threads count on it.
    ASSERT_EQ(stat((path + Sha256Hex("hello")).c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_EQ(Files("partial"), 0);
    EXPECT_EQ(cache_->used_bytes(), 5);
  }
}

TEST_F(DatasetCacheTest, PartsOfUrlsThatNobodyCanCompleteGo) {
  Lease lease(cache_.get());
  for (const absl::Status& end :
       {absl::CancelledError(""), absl::NotFoundError(""),
        absl::PermissionDeniedError("")}) {
    Ending source("hel", end);
    EXPECT_EQ(GetVersion("v", 5, &source, &lease).status(), end);
    EXPECT_EQ(Files("partial"), 0) << end;
  }
  Ending changed("hel", absl::AbortedError("it has changed"));
  EXPECT_THAT(GetVersion("v", 5, &changed, &lease),
              StatusIs(Code::kUnavailable, HasSubstr("it has changed")));
  EXPECT_EQ(Files("partial"), 0);
  // The next try goes on with this one, but no other process.
  Ending broken("hel", absl::UnavailableError(""));
  EXPECT_THAT(GetVersion("v", 5, &broken, &lease),
              StatusIs(Code::kUnavailable));
  EXPECT_EQ(Files("partial"), 1);
}

TEST_F(DatasetCacheTest, PartsOfUrlsDoNotOutliveTheProcess) {
  {
    Lease lease(cache_.get());
    Ending broken("hel", absl::UnavailableError(""));
    EXPECT_THAT(GetVersion("v", 5, &broken, &lease),
                StatusIs(Code::kUnavailable));
    EXPECT_EQ(Files("partial"), 1);
  }
  Open();
  EXPECT_EQ(Files("partial"), 0);
}

TEST_F(DatasetCacheTest, VersionsOfOneBlobAreBounded) {
  Ending hello("hello", absl::OkStatus());
  const int many = static_cast<int>(DatasetCache::kMaxVersionsOfBlob) + 6;
  {
    Lease lease(cache_.get());
    for (int i = 0; i < many; ++i) {
      EXPECT_OK(GetVersion(std::to_string(i), 5, &hello, &lease));
    }
    EXPECT_EQ(Files("versions"), DatasetCache::kMaxVersionsOfBlob);
    // The last one is always known.
    EXPECT_OK(GetVersion(std::to_string(many - 1), 5, &source_, &lease));
  }
  Open();
  EXPECT_EQ(Files("versions"), DatasetCache::kMaxVersionsOfBlob);
}

TEST_F(DatasetCacheTest, WhatCannotFitEvictsNothing) {
  options_.max_bytes = 10;
  Open();
  {
    Lease lease(cache_.get());
    EXPECT_OK(Get("hello", &lease));
  }
  int64_t sum = 0;
  EXPECT_OK(cache_->AddSize(6, &sum));
  EXPECT_THAT(cache_->AddSize(5, &sum), StatusIs(Code::kResourceExhausted));
  EXPECT_THAT(cache_->AddSize(INT64_MAX, &sum),
              StatusIs(Code::kResourceExhausted));
  EXPECT_THAT(cache_->AddSize(-1, &sum), StatusIs(Code::kDataLoss));
  EXPECT_EQ(sum, 6);
  Lease lease(cache_.get());
  Ending source("hello", absl::OkStatus());
  EXPECT_THAT(GetVersion("v", INT64_MAX, &source, &lease),
              StatusIs(Code::kResourceExhausted, HasSubstr("does not fit")));
  EXPECT_EQ(cache_->used_bytes(), 5);
}

TEST_F(DatasetCacheTest, WhoWaitsCanGiveUp) {
  source_.Close();
  std::atomic<bool> given_up{false};
  std::thread first([&] {
    Lease lease(cache_.get());
    EXPECT_OK(Get("shared", &lease));
  });
  source_.WaitForFetches(1);
  std::thread second([&] {
    Lease lease(cache_.get());
    DatasetCache::Fetch fetch;
    fetch.source = &source_;
    fetch.cancelled = &given_up;
    EXPECT_THAT(cache_->Get(Sha256Hex("shared"), 6, fetch, &lease),
                StatusIs(Code::kCancelled));
  });
  given_up = true;
  cache_->Wake();
  second.join();
  source_.Open();
  first.join();
}

}  // namespace
}  // namespace comera::worker
