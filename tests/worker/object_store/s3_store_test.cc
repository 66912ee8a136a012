// Checks the store of checkpoints in a bucket against s3rver: uploads in parts,
// faults at every stage of them, listings, and fetching training states back.

#include "worker/checkpoint/s3_store.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/object_store/s3_answers.h"
#include "common/object_store/s3_bucket.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/object_store/s3_server_process.h"
#include "worker/checkpoint/state_fetch.h"
#include "worker/checkpoint/state_source.h"
#include "worker/checkpoint/stored_checkpoints.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Code = absl::StatusCode;

constexpr char kSecret[] = "wJalr/XUtnFEMI+K7MDENG";
constexpr char kName[] = "checkpoints/a/step-000000000040.attempt-3.checkpoint";

class S3StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "*", 1);
    const std::string absent = S3ServerProcess::Absent();
    if (!absent.empty()) GTEST_SKIP() << "no server of S3 here: " << absent;
    folder_ = ::testing::TempDir() + "/store_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    server_ = std::make_unique<S3ServerProcess>(folder_ + "/objects", kSecret);
    ASSERT_NE(server_->port(), "");
    options_.url = "s3://bucket/team/one";
    options_.endpoint = server_->endpoint();
    options_.region = "eu-west-9";
    options_.credentials = {"S3RVER", kSecret, ""};
    options_.client.min_backoff = options_.client.max_backoff =
        absl::Milliseconds(1);
    options_.client.stall = absl::Seconds(1);
    options_.part_bytes = 1 << 20;
    Open();
    // Four parts, the last of them short.
    for (int i = 0; data_.size() < 3700000; ++i)
      absl::StrAppend(&data_, i, ",");
    absl::StrAppend(&data_, "\nsha256 ", Sha256Hex(data_), "\n");
    ASSERT_OK(WriteFileAtomically(source_ = folder_ + "/source", data_));
  }
  void TearDown() override {
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void Open() { ASSERT_OK_AND_ASSIGN(store_, OpenS3Store(options_)); }

  absl::Status Put(const std::string& name = kName) {
    return store_->PutFile(name, *PlainFile::Open({folder_, "source"}), never_);
  }
  absl::StatusOr<std::string> Read(int64_t offset = 0) {
    std::string received;
    const absl::Status status = store_->Read(
        kName, offset, never_, [&](int64_t size, std::string_view data) {
          EXPECT_EQ(size, static_cast<int64_t>(data_.size()));
          received.append(data);
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return received;
  }
  std::vector<std::string> List(const std::string& folder = "checkpoints") {
    const auto names = store_->List(folder, never_);
    EXPECT_OK(names);
    return names.ok() ? *names : std::vector<std::string>();
  }

  std::string folder_, source_, data_;
  const std::atomic<bool> never_{false};
  S3StoreOptions options_;
  std::unique_ptr<S3ServerProcess> server_;
  std::unique_ptr<ArtifactStore> store_;
};

TEST_F(S3StoreTest, AFileOfSeveralPartsComesBack) {
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_THAT(Read(), StatusIs(Code::kNotFound));
  ASSERT_OK(Put());
  EXPECT_EQ(server_->CountRequests("PUT "), 4);
  EXPECT_EQ(server_->CountRequests("partNumber=4"), 1);
  ASSERT_OK_AND_ASSIGN(const std::string all, Read());
  EXPECT_TRUE(all == data_);
  for (size_t offset : {size_t{1}, size_t{1} << 20, data_.size()}) {
    ASSERT_OK_AND_ASSIGN(const std::string rest,
                         Read(static_cast<int64_t>(offset)));
    EXPECT_TRUE(rest == data_.substr(offset));
  }
  EXPECT_THAT(Read(static_cast<int64_t>(data_.size()) + 1),
              StatusIs(Code::kOutOfRange));
  EXPECT_THAT(List(), ElementsAre("a/step-000000000040.attempt-3.checkpoint"));
  ASSERT_OK(store_->Delete(kName, never_));
  ASSERT_OK(store_->Delete(kName, never_));
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_THAT(Put("../x"), StatusIs(Code::kInvalidArgument));
}

TEST_F(S3StoreTest, FoldersOfABucketAreStoresOfTheirOwn) {
  ASSERT_OK(Put());
  options_.url = "s3://bucket/team/on";
  Open();
  EXPECT_THAT(List(), IsEmpty());
  options_.url = "s3://bucket";
  Open();
  EXPECT_THAT(List("team"), SizeIs(1));
  options_.url = "s3://another/team/one";
  Open();
  EXPECT_THAT(Put(),
              StatusIs(Code::kFailedPrecondition, HasSubstr("NoSuchBucket")));
}

TEST_F(S3StoreTest, AListingOfSeveralPagesIsWhole) {
  ASSERT_OK(WriteFileAtomically(source_, "x"));
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(Put(absl::StrCat("checkpoints/a/", i)));
  }
  S3Bucket::Options options;
  options.bucket = "bucket";
  options.page = 2;
  ASSERT_OK_AND_ASSIGN(
      const S3Endpoint endpoint,
      S3Endpoint::Create(server_->endpoint(), options_.region));
  const S3Bucket bucket(options, endpoint,
                        S3KeySource("", options_.credentials));
  ASSERT_OK_AND_ASSIGN(const auto objects,
                       bucket.List("team/one/checkpoints/", never_));
  ASSERT_THAT(objects, SizeIs(5));
  EXPECT_EQ(objects[4].key, "team/one/checkpoints/a/4");
  EXPECT_EQ(objects[4].size, 1);
  EXPECT_EQ(server_->CountRequests("continuation-token"), 2);
}

TEST_F(S3StoreTest, WhatFailsOnTheWayIsSentAgain) {
  server_->SetFaults(
      "1 503 ^POST .*uploads\n"
      "2 503 ^PUT .*partNumber=1&\n"
      "1 garble ^PUT .*partNumber=2&\n"
      "1 hang ^PUT .*partNumber=3&\n"
      "1 lose ^PUT .*partNumber=4&\n"
      "1 503 ^POST .*uploadId\n"
      "1 503 ^HEAD\n"
      "1 503 ^GET .*list-type\n");
  ASSERT_OK(Put());
  EXPECT_EQ(server_->CountRequests("PUT "), 9);
  EXPECT_THAT(List(), SizeIs(1));
  ASSERT_OK_AND_ASSIGN(const std::string all, Read());
  EXPECT_TRUE(all == data_);
}

TEST_F(S3StoreTest, AnUploadOfWhichNobodyHeardTheEndIsThere) {
  // Ceph's gateway answers 500 where it does not know an upload any more.
  server_->SetFaults(
      "1 lose ^POST .*uploadId\n"
      "9 503 ^POST .*uploadId\n"
      "1 tag1048576 ^HEAD\n");
  ASSERT_OK(Put());
  // Parts may be there all the same, of a later try to upload the same.
  EXPECT_EQ(server_->CountRequests("DELETE "), 1);
  ASSERT_OK_AND_ASSIGN(const std::string all, Read());
  EXPECT_TRUE(all == data_);
}

TEST_F(S3StoreTest, AnOlderObjectIsNotTakenForTheUpload) {
  ASSERT_OK(Put());
  std::string other = data_;
  other[100] ^= 1;
  ASSERT_OK(WriteFileAtomically(source_, other));
  server_->SetFaults(
      "9 503 ^POST .*uploadId\n"
      "1 tag1048576 ^HEAD\n");
  EXPECT_THAT(Put(), StatusIs(Code::kUnavailable));
  ASSERT_OK_AND_ASSIGN(const std::string all, Read());
  EXPECT_TRUE(all == data_);
}

TEST_F(S3StoreTest, AnUploadThatNeverEndedIsNotThere) {
  server_->SetFaults("9 503 ^POST .*uploadId\n");
  EXPECT_THAT(Put(), StatusIs(Code::kUnavailable));
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_EQ(server_->CountRequests("DELETE "), 1);
}

TEST_F(S3StoreTest, AnUploadThatFailsLeavesNothing) {
  server_->SetFaults("9 503 ^PUT .*partNumber=3&\n");
  EXPECT_THAT(Put(), StatusIs(Code::kUnavailable));
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_EQ(server_->CountRequests("DELETE "), 1);
  ASSERT_OK(store_->Tidy("checkpoints", absl::ZeroDuration(), never_));
  EXPECT_EQ(server_->CountRequests("DELETE "), 1);
}

TEST_F(S3StoreTest, AnAbandonedUploadEndsSoon) {
  // Nobody waits that long.
  options_.client.stall = absl::Hours(1);
  Open();
  server_->SetFaults("1 hang ^PUT .*partNumber=2&\n");
  std::atomic<bool> abandoned{false};
  std::thread uploader([&] {
    EXPECT_THAT(store_->PutFile(kName, *PlainFile::Open({folder_, "source"}),
                                abandoned),
                StatusIs(Code::kAborted));
  });
  while (server_->CountRequests("partNumber=2") == 0) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  abandoned = true;
  uploader.join();
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_EQ(server_->CountRequests("DELETE "), 1);
}

TEST_F(S3StoreTest, WhatAKilledProcessLeftIsTidiedUp) {
  server_->SetFaults("1 hang ^PUT .*partNumber=3&\n");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    (void)Put();
    _exit(0);
  }
  while (server_->CountRequests("partNumber=3") == 0) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_TRUE(WIFSIGNALED(ended));
  EXPECT_THAT(List(), IsEmpty());
  ASSERT_OK(store_->Tidy("checkpoints", absl::Hours(1), never_));
  ASSERT_OK(store_->Tidy("others", absl::ZeroDuration(), never_));
  EXPECT_EQ(server_->CountRequests("DELETE "), 0);
  // Another worker's upload of the same name is another upload.
  ASSERT_OK(Put());
  ASSERT_OK(store_->Tidy("checkpoints", -absl::Hours(1), never_));
  EXPECT_EQ(server_->CountRequests("DELETE "), 1);
  ASSERT_OK_AND_ASSIGN(const std::string all, Read());
  EXPECT_TRUE(all == data_);
}

TEST_F(S3StoreTest, ReadingGoesOnWhereItBroke) {
  ASSERT_OK(Put());
  server_->SetFaults("3 cut ^GET .*checkpoint\n");
  ASSERT_OK_AND_ASSIGN(const std::string all, Read());
  EXPECT_TRUE(all == data_);
  EXPECT_EQ(server_->CountRequests("GET /bucket/team"), 4);
}

TEST_F(S3StoreTest, AFetchGoesOnWhereAnEarlierOneStopped) {
  ASSERT_OK(Put());
  const PathBelow path = {folder_, "fetched"};
  std::vector<std::unique_ptr<StateSource>> sources;
  sources.push_back(StoreSource(store_.get(), "jobs/a", {3, 40}));
  std::atomic<bool> abandoned{false};
  int64_t reached = 0;
  const auto stop = [&](int64_t bytes, int64_t, const std::string&) {
    reached = bytes;
    abandoned = bytes > 1000000;
  };
  EXPECT_THAT(FetchState({}, sources, path, stop, abandoned),
              StatusIs(Code::kAborted));
  ASSERT_GT(reached, 1000000);
  ASSERT_LT(reached, static_cast<int64_t>(data_.size()));
  int64_t first = -1;
  const auto note = [&](int64_t bytes, int64_t, const std::string& source) {
    if (first < 0 && source == "the store") first = bytes;
  };
  EXPECT_OK(FetchState({}, sources, path, note, never_));
  EXPECT_GT(first, reached);
  ASSERT_OK_AND_ASSIGN(const std::string fetched, ReadFile(path.ToString()));
  EXPECT_TRUE(fetched == data_);
}

TEST_F(S3StoreTest, ADamagedObjectIsNotResumedFrom) {
  std::string damaged = data_;
  damaged[2000000] ^= 1;
  ASSERT_OK(WriteFileAtomically(source_, damaged));
  ASSERT_OK(Put());
  std::vector<std::unique_ptr<StateSource>> sources;
  sources.push_back(StoreSource(store_.get(), "jobs/a", {3, 40}));
  const PathBelow path = {folder_, "fetched"};
  EXPECT_THAT(FetchState({}, sources, path, nullptr, never_),
              StatusIs(Code::kDataLoss, HasSubstr("the store: damaged")));
  EXPECT_FALSE(std::filesystem::exists(path.ToString()));
}

TEST_F(S3StoreTest, AKeyThatIsRefusedMayBeReplaced) {
  const std::string file = folder_ + "/key";
  const auto write = [&](const std::string& secret) {
    ASSERT_OK(WriteFileAtomically(
        file, absl::StrCat("[default]\naws_access_key_id=S3RVER\n"
                           "aws_secret_access_key=",
                           secret, "\n")));
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  };
  write("old/secret");
  options_.credentials_file = file;
  options_.credentials = {};
  Open();
  for (const absl::Status& status :
       {Put(), store_->List("checkpoints", never_).status(), Read().status(),
        store_->Delete(kName, never_)}) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), Not(HasSubstr("old/secret")));
    EXPECT_THAT(status.message(), HasSubstr("HTTP 403"));
  }
  EXPECT_THAT(Put(), StatusIs(Code::kPermissionDenied));
  // A fetch waits for that.
  EXPECT_THAT(Read(), StatusIs(Code::kUnavailable));
  write(kSecret);
  EXPECT_OK(Put());
}

TEST_F(S3StoreTest, StoresThatCannotWorkAreRefused) {
  const auto open = [&](const std::string& url) {
    options_.url = url;
    return OpenS3Store(options_).status();
  };
  EXPECT_OK(open("s3://bucket"));
  EXPECT_OK(open("s3://bucket/a/b/"));
  for (const char* url : {"s3://", "s3:///a", "s3://bucket/a b",
                          "s3://bucket/.a", "https://bucket/a"}) {
    EXPECT_THAT(open(url),
                StatusIs(Code::kInvalidArgument, HasSubstr("checkpoint_store")))
        << url;
  }
  for (const char* prefix :
       {"s3://bucket", "s3://bucket/a/", "s3://bucket/a/b/c"}) {
    options_.data_prefixes = {"s3://bucket/another", prefix};
    EXPECT_THAT(open("s3://bucket/a/b"),
                StatusIs(Code::kInvalidArgument, HasSubstr("--data_url")))
        << prefix;
  }
  options_.data_prefixes.clear();
  options_.credentials = {};
  EXPECT_THAT(open("s3://bucket"),
              StatusIs(Code::kInvalidArgument, HasSubstr("AWS_ACCESS_KEY_ID")));
}

TEST(S3AnswersTest, TheEndOfAnUploadMayFailBehindA200) {
  EXPECT_OK(
      ParseS3Completion("<?xml version=\"1.0\"?>\n   "
                        "<CompleteMultipartUploadResult><ETag>x</ETag>"
                        "</CompleteMultipartUploadResult>"));
  const auto error = [](const std::string& code) {
    return ParseS3Completion(
        absl::StrCat("<Error><Code>", code, "</Code></Error>"));
  };
  EXPECT_THAT(error("InternalError"), StatusIs(Code::kUnavailable));
  EXPECT_THAT(error("NoSuchUpload"), StatusIs(Code::kNotFound));
  EXPECT_THAT(error("InvalidPart"), StatusIs(Code::kFailedPrecondition));
  EXPECT_EQ(ParseS3ErrorCode("<Error><Code>SlowDown</Code></Error>"),
            "SlowDown");
  EXPECT_EQ(ParseS3ErrorCode("<Error><Code>a secret</Code></Error>"), "");
}

TEST(S3AnswersTest, WhatIsNoAnswerIsRefused) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<a>";
  for (const std::string& xml :
       {std::string(), std::string("<html></html>"), std::string("{}"),
        std::string("<ListBucketResult>"), deep,
        std::string("<ListBucketResult><IsTruncated>true</IsTruncated>"
                    "</ListBucketResult>"),
        std::string("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size>"
                    "</Contents></ListBucketResult>")}) {
    EXPECT_THAT(ParseS3Listing(xml), StatusIs(Code::kFailedPrecondition));
    EXPECT_THAT(ParseS3Uploads(xml), StatusIs(Code::kFailedPrecondition));
    EXPECT_THAT(ParseS3UploadId(xml), StatusIs(Code::kFailedPrecondition));
    EXPECT_THAT(ParseS3Completion(xml), StatusIs(Code::kFailedPrecondition));
  }
}

}  // namespace
}  // namespace comera::worker
