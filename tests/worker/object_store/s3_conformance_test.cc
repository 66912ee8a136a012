// What the client of S3 and the store of checkpoints need of a service that
// speaks S3, checked against s3rver or, where the environment names one, a
// service elsewhere: radosgw.sh does so.
//
//   COMERA_TEST_S3_ENDPOINT    http[s]://HOST:PORT
//   COMERA_TEST_S3_REGION
//   COMERA_TEST_S3_BUCKET      exists, and has nothing below comera-test/
//   COMERA_TEST_S3_CA          PEM file of authorities; may be missing
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY

#include <stdlib.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/object_store/object_client.h"
#include "common/object_store/s3_bucket.h"
#include "common/object_store/s3_uploader.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/object_store/s3_server_process.h"
#include "worker/checkpoint/s3_store.h"
#include "worker/checkpoint/state_fetch.h"
#include "worker/checkpoint/state_source.h"
#include "worker/checkpoint/stored_checkpoints.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

constexpr char kSecret[] = "wJalr/XUtnFEMI+K7MDENG";
constexpr char kPrefix[] = "comera-test/";
// The least that S3 takes of a part that is not the last.
constexpr int64_t kPart = int64_t{5} << 20;

std::string Variable(const char* name, const std::string& otherwise) {
  const char* const value = getenv(name);
  return value == nullptr ? otherwise : value;
}

class S3ConformanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "*", 1);
    folder_ = ::testing::TempDir() + "/conformance_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    store_.endpoint = Variable("COMERA_TEST_S3_ENDPOINT", "");
    if (store_.endpoint.empty()) {
      const std::string absent = S3ServerProcess::Absent();
      if (!absent.empty()) GTEST_SKIP() << "no server of S3 here: " << absent;
      server_ =
          std::make_unique<S3ServerProcess>(folder_ + "/objects", kSecret);
      ASSERT_NE(server_->port(), "");
      store_.endpoint = server_->endpoint();
      store_.region = "eu-west-9";
      store_.credentials = {"S3RVER", kSecret, ""};
      bucket_.bucket = "bucket";
    } else {
      store_.region = Variable("COMERA_TEST_S3_REGION", "us-east-1");
      store_.credentials = {Variable("AWS_ACCESS_KEY_ID", ""),
                            Variable("AWS_SECRET_ACCESS_KEY", ""), ""};
      store_.client.ca_file = Variable("COMERA_TEST_S3_CA", "");
      bucket_.bucket = Variable("COMERA_TEST_S3_BUCKET", "");
    }
    store_.url = absl::StrCat("s3://", bucket_.bucket, "/comera-test");
    store_.part_bytes = kPart;
    store_.client.min_backoff = absl::Milliseconds(10);
    bucket_.client = store_.client;
    for (int i = 0; data_.size() < size_t{17} << 20; ++i) {
      absl::StrAppend(&data_, i, ",");
    }
    absl::StrAppend(&data_, "\nsha256 ", Sha256Hex(data_), "\n");
    ASSERT_OK(WriteFileAtomically(source_ = folder_ + "/source", data_));
    Clear();
  }
  void TearDown() override {
    if (!IsSkipped()) Clear();
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  S3Endpoint Endpoint() const {
    return *S3Endpoint::Create(store_.endpoint, store_.region);
  }
  S3KeySource Keys() const { return S3KeySource("", store_.credentials); }
  S3Bucket Bucket() const { return S3Bucket(bucket_, Endpoint(), Keys()); }
  std::unique_ptr<ArtifactStore> Store() const {
    absl::StatusOr<std::unique_ptr<ArtifactStore>> store = OpenS3Store(store_);
    EXPECT_OK(store);
    return *std::move(store);
  }
  absl::Status Upload(const std::string& key, const std::string& data) {
    const S3Uploader uploader(bucket_, Endpoint(), Keys(), kPart);
    return uploader.Upload(
        key, static_cast<int64_t>(data.size()),
        [&](const ObjectClient::Sink& sink) { return sink(data); }, never_);
  }
  absl::StatusOr<std::string> Read(const std::string& key, int64_t offset = 0) {
    const ObjectClient reader(store_.client);
    const absl::StatusOr<ObjectLocation> location = Bucket().Locate(key);
    if (!location.ok()) return location.status();
    const absl::StatusOr<ObjectVersion> version =
        reader.Head(*location, never_);
    if (!version.ok()) return version.status();
    std::string received;
    const absl::Status status = reader.Get(*location, *version, offset, never_,
                                           [&](absl::string_view data) {
                                             absl::StrAppend(&received, data);
                                             return absl::OkStatus();
                                           });
    if (!status.ok()) return status;
    return received;
  }
  std::vector<std::string> List(ArtifactStore* store) {
    const auto names = store->List("checkpoints", never_);
    EXPECT_OK(names);
    return names.ok() ? *names : std::vector<std::string>();
  }
  void Clear() {
    const auto objects = Bucket().List(kPrefix, never_);
    EXPECT_OK(objects);
    if (!objects.ok()) return;
    for (const S3Listing::Object& object : *objects) {
      EXPECT_OK(Bucket().Delete(object.key, never_));
    }
    EXPECT_OK(Bucket().AbortOldUploads(kPrefix, -absl::Hours(1), never_));
  }

  std::string folder_, source_, data_;
  const std::atomic<bool> never_{false};
  std::unique_ptr<S3ServerProcess> server_;
  S3StoreOptions store_;
  S3Bucket::Options bucket_;
};

TEST_F(S3ConformanceTest, ATrainingStateComesBackFromAnyOffset) {
  const auto store = Store();
  const StateKey state = {3, 40};
  CheckpointName name;
  name.step = state.step;
  name.attempt = state.attempt;
  const std::string path = StoredCheckpointPath("jobs/a", name);
  EXPECT_THAT(List(store.get()), IsEmpty());
  ASSERT_OK(
      store->PutFile(path, *PlainFile::Open({folder_, "source"}), never_));
  EXPECT_THAT(List(store.get()), ElementsAre("a/" + ToFileName(name)));
  for (const int64_t offset :
       {int64_t{0}, int64_t{1}, kPart - 1, kPart, 2 * kPart + 7,
        static_cast<int64_t>(data_.size())}) {
    ASSERT_OK_AND_ASSIGN(const std::string rest, Read(kPrefix + path, offset));
    EXPECT_TRUE(rest == data_.substr(static_cast<size_t>(offset))) << offset;
  }
  // A fetch that was stopped goes on where it was.
  std::vector<std::unique_ptr<StateSource>> sources;
  sources.push_back(StoreSource(store.get(), "jobs/a", state));
  const PathBelow fetched = {folder_, "fetched"};
  std::atomic<bool> abandoned{false};
  int64_t reached = 0;
  EXPECT_THAT(FetchState(
                  {}, sources, fetched,
                  [&](int64_t bytes, int64_t, const std::string&) {
                    reached = bytes;
                    abandoned = bytes > kPart;
                  },
                  abandoned),
              StatusIs(Code::kAborted));
  int64_t first = -1;
  EXPECT_OK(FetchState(
      {}, sources, fetched,
      [&](int64_t bytes, int64_t, const std::string& from) {
        if (first < 0 && from == "the store") first = bytes;
      },
      never_));
  EXPECT_GT(first, reached);
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(fetched.ToString()));
  EXPECT_TRUE(whole == data_);
  ASSERT_OK(store->Delete(path, never_));
  ASSERT_OK(store->Delete(path, never_));
  EXPECT_THAT(List(store.get()), IsEmpty());
  EXPECT_THAT(Read(kPrefix + path), StatusIs(Code::kNotFound));
}

TEST_F(S3ConformanceTest, ObjectsOfAllSizesAreReplacedAsAWhole) {
  const std::string key = absl::StrCat(kPrefix, "a/b-c_d.e");
  for (const size_t size : {size_t{0}, size_t{1}, static_cast<size_t>(kPart),
                            static_cast<size_t>(kPart) + 1, size_t{3}}) {
    ASSERT_OK(Upload(key, data_.substr(0, size))) << size;
    ASSERT_OK_AND_ASSIGN(const std::string all, Read(key));
    EXPECT_TRUE(all == data_.substr(0, size)) << size;
  }
}

TEST_F(S3ConformanceTest, AnotherVersionIsNotReadOn) {
  const std::string key = absl::StrCat(kPrefix, "changing");
  ASSERT_OK(Upload(key, "one and"));
  const ObjectClient reader(store_.client);
  ASSERT_OK_AND_ASSIGN(const ObjectLocation location, Bucket().Locate(key));
  ASSERT_OK_AND_ASSIGN(const ObjectVersion version,
                       reader.Head(location, never_));
  EXPECT_TRUE(version.resumable());
  ASSERT_OK(Upload(key, "two and"));
  EXPECT_THAT(reader.Get(location, version, 3, never_,
                         [](absl::string_view) { return absl::OkStatus(); }),
              StatusIs(Code::kAborted));
}

TEST_F(S3ConformanceTest, ListingsHavePages) {
  bucket_.page = 2;
  std::vector<std::string> names;
  // s3rver lists by folder rather than by key, and so leaves out of later pages
  // what comes before a folder of its name: only others are checked with these.
  if (server_ == nullptr) names = {std::string("a"), std::string("a.b")};
  for (const char* name : {"a/1", "a/2", "b", "c/d/e", "f"}) {
    names.emplace_back(name);
  }
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    keys.push_back(absl::StrCat(kPrefix, name));
    ASSERT_OK(Upload(keys.back(), name));
  }
  ASSERT_OK_AND_ASSIGN(const auto objects, Bucket().List(kPrefix, never_));
  ASSERT_THAT(objects, SizeIs(keys.size()));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(objects[i].key, keys[i]);
    EXPECT_EQ(objects[i].size,
              static_cast<int64_t>(keys[i].size() - strlen(kPrefix)));
  }
  ASSERT_OK_AND_ASSIGN(const auto below,
                       Bucket().List(absl::StrCat(kPrefix, "a/"), never_));
  EXPECT_THAT(below, SizeIs(2));
}

TEST_F(S3ConformanceTest, UploadsThatAreNotEndedGo) {
  const std::string key = absl::StrCat(kPrefix, "half");
  const S3Bucket bucket = Bucket();
  std::vector<std::string> ids;
  // Several pages of them.
  bucket_.page = 2;
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(const std::string id,
                         bucket.BeginUpload(absl::StrCat(key, i), never_));
    ids.push_back(id);
  }
  ASSERT_OK_AND_ASSIGN(
      const std::string tag,
      bucket.UploadPart(absl::StrCat(key, 0), ids[0], 1, "part", never_));
  // Uploads that others have begun just now stay.
  ASSERT_OK(Bucket().AbortOldUploads(kPrefix, absl::Hours(1), never_));
  ASSERT_OK(bucket.UploadPart(absl::StrCat(key, 0), ids[0], 2, "part", never_));
  ASSERT_OK(Bucket().AbortOldUploads(kPrefix, -absl::Hours(1), never_));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_THAT(
        bucket.UploadPart(absl::StrCat(key, i), ids[i], 1, "part", never_),
        StatusIs(Code::kNotFound));
  }
  // Ceph's gateway calls it an internal error.
  EXPECT_THAT(bucket.EndUpload(absl::StrCat(key, 0), ids[0], {tag}, never_),
              AnyOf(StatusIs(Code::kNotFound), StatusIs(Code::kUnavailable)));
  EXPECT_OK(bucket.AbortUpload(absl::StrCat(key, 0), ids[0], never_));
  ASSERT_OK_AND_ASSIGN(const auto objects, bucket.List(kPrefix, never_));
  EXPECT_THAT(objects, IsEmpty());
}

TEST_F(S3ConformanceTest, WhatIsNotThereOrNotAllowedIsNamed) {
  EXPECT_THAT(Read(absl::StrCat(kPrefix, "none")), StatusIs(Code::kNotFound));
  EXPECT_OK(Bucket().Delete(absl::StrCat(kPrefix, "none"), never_));
  const S3Credentials key = store_.credentials;
  store_.credentials.secret_access_key = "another";
  const absl::Status refused = Upload(absl::StrCat(kPrefix, "a"), "a");
  EXPECT_THAT(refused,
              StatusIs(Code::kPermissionDenied, HasSubstr("HTTP 403")));
  EXPECT_THAT(Bucket().List(kPrefix, never_).status(),
              StatusIs(Code::kPermissionDenied));
  store_.credentials = key;
  const std::string bucket = bucket_.bucket;
  bucket_.bucket = "comera-test-no-such-bucket";
  EXPECT_THAT(
      Bucket().List(kPrefix, never_).status(),
      AnyOf(StatusIs(Code::kNotFound), StatusIs(Code::kPermissionDenied)));
  // What clears up after the test needs it.
  bucket_.bucket = bucket;
}

}  // namespace
}  // namespace comera::worker
