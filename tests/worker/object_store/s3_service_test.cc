// Reads objects from a service that speaks S3 and was written elsewhere, which
// checks each request's signature.

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/object_store/object_client.h"
#include "common/object_store/s3_endpoint.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/object_store/s3_server_process.h"

namespace comera::worker {
namespace {

using Code = absl::StatusCode;

constexpr char kSecret[] = "wJalr/XUtnFEMI+K7MDENG";
constexpr char kRegion[] = "eu-west-9";
// What the name of a file and of a URL make of an odd key.
constexpr char kOddKey[] = "a%20b%2B%3D%C3%A9~.txt";

class S3ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "*", 1);
    const std::string absent = S3ServerProcess::Absent();
    if (!absent.empty()) GTEST_SKIP() << "no server of S3 here: " << absent;
    folder_ = ::testing::TempDir() + "/s3_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    for (int i = 0; i < 30000; ++i) absl::StrAppend(&data_, i, ",");
    ASSERT_OK(MakeDirectories(folder_ + "/objects"));
    ASSERT_OK(WriteFileAtomically(folder_ + "/objects/f.txt", data_));
    ASSERT_OK(WriteFileAtomically(folder_ + "/objects/" + kOddKey, "odd"));
    server_ = std::make_unique<S3ServerProcess>(folder_ + "/objects", kSecret,
                                                "session+token==");
    ASSERT_NE(server_->port(), "");
    ASSERT_OK_AND_ASSIGN(const S3Endpoint endpoint,
                         S3Endpoint::Create(server_->endpoint(), kRegion));
    location_.url = endpoint.Url("bucket", "/f.txt");
    location_.plain_http = true;
    location_.s3_region = kRegion;
    location_.credentials = {"S3RVER", kSecret, "session+token=="};
  }
  void TearDown() override {
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  absl::StatusOr<std::string> Read(const ObjectLocation& location,
                                   int64_t offset) {
    const ObjectClient client{ObjectClient::Options()};
    const absl::StatusOr<ObjectVersion> version =
        client.Head(location, cancelled_);
    if (!version.ok()) return version.status();
    EXPECT_TRUE(version->resumable());
    std::string received;
    const absl::Status status = client.Get(
        location, *version, offset, cancelled_, [&](absl::string_view data) {
          absl::StrAppend(&received, data);
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return received;
  }

  std::string folder_, data_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<S3ServerProcess> server_;
  ObjectLocation location_;
};

TEST_F(S3ServiceTest, SignedRequestsAreAnswered) {
  ASSERT_OK_AND_ASSIGN(const std::string all, Read(location_, 0));
  EXPECT_TRUE(all == data_);
  ASSERT_OK_AND_ASSIGN(const std::string rest, Read(location_, 100));
  EXPECT_TRUE(rest == data_.substr(100));
  const size_t slash = location_.url.rfind('/');
  location_.url = location_.url.substr(0, slash + 1) + kOddKey;
  ASSERT_OK_AND_ASSIGN(const std::string odd, Read(location_, 0));
  EXPECT_EQ(odd, "odd");
  location_.url = location_.url.substr(0, slash + 1) + "none";
  EXPECT_THAT(Read(location_, 0), StatusIs(Code::kNotFound));
}

TEST_F(S3ServiceTest, OthersAreRefused) {
  ObjectLocation location = location_;
  location.credentials.secret_access_key = "another";
  EXPECT_THAT(Read(location, 0), StatusIs(Code::kPermissionDenied));
  location = location_;
  location.credentials.session_token.clear();
  EXPECT_THAT(Read(location, 0), StatusIs(Code::kPermissionDenied));
  location = location_;
  location.s3_region = "eu-west-8";
  EXPECT_THAT(Read(location, 0), StatusIs(Code::kPermissionDenied));
  location.s3_region.clear();
  EXPECT_THAT(Read(location, 0), StatusIs(Code::kPermissionDenied));
}

}  // namespace
}  // namespace comera::worker
