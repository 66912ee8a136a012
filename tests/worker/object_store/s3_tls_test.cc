// Checks the store of checkpoints against a bucket behind TLS: uploads and
// fetches by a private authority, and what is refused of other certificates.

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/security/certificates.h"
#include "tests/worker/object_store/s3_server_process.h"
#include "tests/worker/object_store/tls_front.h"
#include "worker/checkpoint/s3_store.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kSecret[] = "wJalr/XUtnFEMI+K7MDENG";
constexpr char kName[] = "checkpoints/a/step-000000000040.attempt-3.checkpoint";

class S3TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "*", 1);
    const std::string absent = S3ServerProcess::Absent();
    if (!absent.empty()) GTEST_SKIP() << "no server of S3 here: " << absent;
    folder_ = ::testing::TempDir() + "/tls_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    server_ = std::make_unique<S3ServerProcess>(folder_ + "/objects", kSecret);
    ASSERT_NE(server_->port(), "");
    certificates_ = std::make_unique<Certificates>(folder_);
    certificates_->Issue("server", "IP:127.0.0.1");
    certificates_->Issue("other", "DNS:elsewhere.example.com");
    options_.url = "s3://bucket/team";
    options_.region = "eu-west-9";
    options_.credentials = {"S3RVER", kSecret, ""};
    options_.client.ca_file = certificates_->Authority();
    options_.client.min_backoff = options_.client.max_backoff =
        absl::Milliseconds(1);
    options_.part_bytes = 1 << 20;
    for (int i = 0; data_.size() < 2500000; ++i) absl::StrAppend(&data_, i);
    ASSERT_OK(WriteFileAtomically(folder_ + "/source", data_));
  }
  void TearDown() override {
    front_.reset();
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Serves the bucket with this certificate.
  void Serve(const std::string& name) {
    front_ = std::make_unique<TlsFront>(
        certificates_->Certificate(name), certificates_->Key(name),
        server_->port(), folder_ + "/front.log");
    ASSERT_NE(front_->port(), "");
    options_.endpoint = front_->endpoint();
  }
  std::unique_ptr<ArtifactStore> Store() {
    absl::StatusOr<std::unique_ptr<ArtifactStore>> store =
        OpenS3Store(options_);
    EXPECT_OK(store);
    return *std::move(store);
  }
  absl::Status Put() {
    return Store()->PutFile(kName, *PlainFile::Open({folder_, "source"}),
                            never_);
  }

  std::string folder_, data_;
  const std::atomic<bool> never_{false};
  std::unique_ptr<Certificates> certificates_;
  std::unique_ptr<S3ServerProcess> server_;
  std::unique_ptr<TlsFront> front_;
  S3StoreOptions options_;
};

TEST_F(S3TlsTest, AStateComesBackByAPrivateAuthority) {
  Serve("server");
  ASSERT_OK(Put());
  const auto store = Store();
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names,
                       store->List("checkpoints", never_));
  EXPECT_THAT(names, ElementsAre("a/step-000000000040.attempt-3.checkpoint"));
  std::string received;
  ASSERT_OK(
      store->Read(kName, 1000000, never_, [&](int64_t, std::string_view data) {
        received.append(data);
        return absl::OkStatus();
      }));
  EXPECT_TRUE(received == data_.substr(1000000));
  EXPECT_OK(store->Delete(kName, never_));
}

TEST_F(S3TlsTest, OtherAuthoritiesAreRefusedInWords) {
  Serve("server");
  const int before = server_->CountRequests("");
  // The system's authorities do not know this one.
  options_.client.ca_file.clear();
  EXPECT_THAT(Put(),
              StatusIs(Code::kPermissionDenied,
                       AllOf(HasSubstr("certificate is not trusted"),
                             HasSubstr("issuer"), HasSubstr("--data_ca"))));
  const Certificates another(folder_, "another");
  options_.client.ca_file = another.Authority();
  EXPECT_THAT(Put(), StatusIs(Code::kPermissionDenied,
                              HasSubstr("certificate is not trusted")));
  EXPECT_THAT(Store()->List("checkpoints", never_).status(),
              StatusIs(Code::kPermissionDenied, HasSubstr("not trusted")));
  // A fetch waits: the authority may be put right meanwhile.
  EXPECT_THAT(
      Store()->Read(kName, 0, never_,
                    [](int64_t, std::string_view) { return absl::OkStatus(); }),
      StatusIs(Code::kUnavailable, HasSubstr("not trusted")));
  // Nothing of a request was sent.
  EXPECT_EQ(server_->CountRequests(""), before);
}

TEST_F(S3TlsTest, ACertificateOfAnotherHostIsRefused) {
  Serve("other");
  EXPECT_THAT(Put(), StatusIs(Code::kPermissionDenied,
                              HasSubstr("certificate is for another name")));
}

TEST_F(S3TlsTest, AFileOfAuthoritiesThatCannotWorkIsRefused) {
  Serve("server");
  options_.client.ca_file = folder_ + "/none";
  EXPECT_THAT(OpenS3Store(options_).status(),
              StatusIs(Code::kNotFound, HasSubstr("data_ca")));
  options_.client.ca_file = folder_ + "/source";
  EXPECT_THAT(Put(), StatusIs(Code::kPermissionDenied,
                              HasSubstr("no authority that can be read")));
}

TEST_F(S3TlsTest, PlainHttpToItFails) {
  Serve("server");
  options_.endpoint = absl::StrCat("http://127.0.0.1:", front_->port());
  options_.client.tries = 1;
  EXPECT_THAT(Put(), StatusIs(Code::kUnavailable));
}

}  // namespace
}  // namespace comera::worker
