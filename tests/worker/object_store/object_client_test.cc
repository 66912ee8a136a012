// Checks the client of objects against an HTTP server with faults: ranges,
// transfers that go on after a cut, tries, redirects, and what is refused.

#include "common/object_store/object_client.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/security/certificates.h"
#include "tests/worker/object_store/object_server.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

class ObjectClientTest : public ::testing::Test {
 protected:
  ObjectClientTest() {
    // A proxy of the machine has nothing to do with these servers.
    setenv("no_proxy", "*", 1);
    folder_ = ::testing::TempDir() + "/objects_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    for (int i = 0; i < 40000; ++i) absl::StrAppend(&data_, i, ",");
    EXPECT_OK(WriteFileAtomically(folder_ + "/f", data_));
    EXPECT_OK(WriteFileAtomically(folder_ + "/empty", ""));
    options_.min_backoff = options_.max_backoff = absl::Milliseconds(1);
    server_ = std::make_unique<ObjectServer>(folder_);
    EXPECT_NE(server_->port(), "");
  }
  ~ObjectClientTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  ObjectLocation At(const std::string& path) const {
    ObjectLocation location;
    location.url = server_->Url(path);
    location.plain_http = absl::StartsWith(location.url, "http:");
    return location;
  }

  absl::StatusOr<ObjectVersion> Head(const ObjectLocation& location) {
    return ObjectClient(options_).Head(location, cancelled_);
  }

  // Gets the bytes from `offset` on into received_.
  absl::Status Get(const ObjectLocation& location, const ObjectVersion& version,
                   int64_t offset = 0) {
    received_.clear();
    return ObjectClient(options_).Get(location, version, offset, cancelled_,
                                      [&](absl::string_view data) {
                                        absl::StrAppend(&received_, data);
                                        return absl::OkStatus();
                                      });
  }

  // HEAD, then GET.
  absl::Status Read(const ObjectLocation& location, int64_t offset = 0) {
    const absl::StatusOr<ObjectVersion> version = Head(location);
    return version.ok() ? Get(location, *version, offset) : version.status();
  }

  // The requests that the server has seen.
  std::vector<std::string> Log() const {
    const absl::StatusOr<std::string> log = ReadFile(folder_ + "/requests");
    if (!log.ok()) return {};
    return absl::StrSplit(*log, '\n', absl::SkipEmpty());
  }

  std::string folder_, data_, received_;
  std::atomic<bool> cancelled_{false};
  ObjectClient::Options options_;
  std::unique_ptr<ObjectServer> server_;
};

TEST_F(ObjectClientTest, AnObjectIsRead) {
  ASSERT_OK_AND_ASSIGN(const ObjectVersion version, Head(At("/f")));
  EXPECT_EQ(version.size, static_cast<int64_t>(data_.size()));
  EXPECT_TRUE(version.resumable());
  EXPECT_OK(Get(At("/f"), version));
  EXPECT_EQ(received_, data_);
}

TEST_F(ObjectClientTest, ARangeBeginsAnywhere) {
  ASSERT_OK(Read(At("/f"), 1000));
  EXPECT_EQ(received_, data_.substr(1000));
  const auto size = static_cast<int64_t>(data_.size());
  ASSERT_OK(Read(At("/f"), size - 1));
  EXPECT_EQ(received_, ",");
  ASSERT_OK(Read(At("/f"), size));
  EXPECT_EQ(received_, "");
  ASSERT_OK(Read(At("/empty")));
  EXPECT_EQ(received_, "");
}

TEST_F(ObjectClientTest, ABrokenTransferGoesOnWhereItBroke) {
  ASSERT_OK(Read(At("/cut-100000/f")));
  EXPECT_TRUE(received_ == data_);
  const std::vector<std::string> log = Log();
  ASSERT_EQ(log.size(), 4u);
  ASSERT_OK_AND_ASSIGN(const ObjectVersion version, Head(At("/f")));
  EXPECT_EQ(log[1], "GET /cut-100000/f - " + version.etag);
  EXPECT_EQ(log[2], "GET /cut-100000/f bytes=100000- " + version.etag);
  EXPECT_EQ(log[3], "GET /cut-100000/f bytes=200000- " + version.etag);
}

TEST_F(ObjectClientTest, TriesThatBringNothingEnd) {
  EXPECT_THAT(Read(At("/cut-0/f")), StatusIs(Code::kUnavailable));
  EXPECT_EQ(Log().size(), 1u + 4);
}

TEST_F(ObjectClientTest, AnOverloadedServerIsAskedAgain) {
  ASSERT_OK(Read(At("/busy-3/f")));
  EXPECT_TRUE(received_ == data_);
  EXPECT_THAT(Read(At("/busy-99/f")),
              StatusIs(Code::kUnavailable, HasSubstr("503")));
  EXPECT_EQ(Log().size(), 5u + 4);
}

TEST_F(ObjectClientTest, AServerThatCannotBeReachedIsUnavailable) {
  const ObjectLocation location = At("/f");
  server_.reset();
  EXPECT_THAT(Head(location), StatusIs(Code::kUnavailable));
}

TEST_F(ObjectClientTest, ATransferWithoutProgressEnds) {
  options_.stall = absl::Seconds(1);
  options_.tries = 1;
  EXPECT_THAT(Read(At("/stall-10/f")), StatusIs(Code::kUnavailable));
  EXPECT_EQ(received_, data_.substr(0, 10));
}

TEST_F(ObjectClientTest, APartIsOfNoUseWithoutRangesOrStrongETags) {
  EXPECT_THAT(Read(At("/norange/f"), 5), StatusIs(Code::kOutOfRange));
  EXPECT_EQ(received_, "");
  EXPECT_THAT(Read(At("/weak/f"), 5), StatusIs(Code::kOutOfRange));
  ASSERT_OK(Read(At("/weak/f")));
  EXPECT_TRUE(received_ == data_);
}

TEST_F(ObjectClientTest, AnObjectThatChangesIsNotedBeforeItsBytes) {
  EXPECT_THAT(Read(At("/changing/f")), StatusIs(Code::kAborted));
  ASSERT_OK_AND_ASSIGN(ObjectVersion version, Head(At("/weak/f")));
  version.etag = "W/\"other\"";
  EXPECT_THAT(Get(At("/weak/f"), version), StatusIs(Code::kAborted));
  ASSERT_OK_AND_ASSIGN(version, Head(At("/f")));
  ++version.size;
  EXPECT_THAT(Get(At("/f"), version), StatusIs(Code::kAborted));
  EXPECT_EQ(received_, "");
}

TEST_F(ObjectClientTest, AnswersThatCannotBeUsedAreRefused) {
  EXPECT_THAT(Head(At("/none")), StatusIs(Code::kNotFound, HasSubstr("404")));
  EXPECT_THAT(Head(At("/code-401/f")), StatusIs(Code::kPermissionDenied));
  EXPECT_THAT(Head(At("/code-403/f")),
              StatusIs(Code::kPermissionDenied, HasSubstr("403")));
  EXPECT_THAT(Head(At("/code-400/f")), StatusIs(Code::kFailedPrecondition));
  EXPECT_THAT(Head(At("/code-301/f")),
              StatusIs(Code::kFailedPrecondition, HasSubstr("another region")));
  EXPECT_THAT(Head(At("/bare/f")),
              StatusIs(Code::kFailedPrecondition, HasSubstr("ETag")));
  EXPECT_THAT(Head(At("/sizeless/f")),
              StatusIs(Code::kFailedPrecondition, HasSubstr("size")));
  // Neither is tried twice.
  EXPECT_EQ(Log().size(), 7u);
  // Nobody reads a redirect's body to its end.
  ObjectVersion version;
  version.size = 1;
  EXPECT_THAT(Get(At("/flood/f"), version),
              StatusIs(Code::kFailedPrecondition, HasSubstr("length")));
}

TEST_F(ObjectClientTest, OtherProtocolsAreImpossible) {
  for (const std::string& url :
       {"file://" + folder_ + "/f", std::string("ftp://127.0.0.1/f"),
        std::string("gopher://127.0.0.1/f"), server_->Url("/f")}) {
    ObjectLocation location;
    location.url = url;
    EXPECT_THAT(Head(location), StatusIs(Code::kInvalidArgument)) << url;
  }
}

TEST_F(ObjectClientTest, CancellingEndsATransferAndAPause) {
  options_.min_backoff = options_.max_backoff = absl::Hours(1);
  // Cancels once the server has seen so many requests.
  const auto read = [this](const std::string& path, size_t requests) {
    cancelled_ = false;
    std::atomic<bool> done{false};
    std::thread canceller([&] {
      while (!done && Log().size() < requests) std::this_thread::yield();
      cancelled_ = true;
    });
    const absl::Status status = Read(At(path));
    done = true;
    canceller.join();
    return status;
  };
  // The server would be silent, and the pause last, much longer than this.
  EXPECT_THAT(read("/stall-0/f", 2), StatusIs(Code::kCancelled));
  EXPECT_THAT(read("/busy-99/f", 3), StatusIs(Code::kCancelled));
}

TEST_F(ObjectClientTest, AnErrorOfTheSinkEndsTheTransfer) {
  ASSERT_OK_AND_ASSIGN(const ObjectVersion version, Head(At("/f")));
  EXPECT_THAT(
      ObjectClient(options_).Get(At("/f"), version, 0, cancelled_,
                                 [](absl::string_view) {
                                   return absl::ResourceExhaustedError("disk");
                                 }),
      StatusIs(Code::kResourceExhausted, HasSubstr("disk")));
}

class TlsObjectClientTest : public ObjectClientTest {
 protected:
  TlsObjectClientTest() : certificates_(folder_) {
    certificates_.Issue("server", "IP:127.0.0.1");
    certificates_.Issue("other", "DNS:elsewhere.example.com");
    Serve("server");
    options_.ca_file = certificates_.Authority();
  }
  void Serve(const std::string& name) {
    server_ = std::make_unique<ObjectServer>(
        folder_, certificates_.Certificate(name), certificates_.Key(name));
    EXPECT_NE(server_->port(), "");
  }
  // A path that redirects to the URL.
  static std::string To(const std::string& url) {
    return absl::StrCat("/to-", absl::WebSafeBase64Escape(url), "/f");
  }

  Certificates certificates_;
};

TEST_F(TlsObjectClientTest, CertificatesAreVerified) {
  ASSERT_OK(Read(At("/f"), 7));
  EXPECT_EQ(received_, data_.substr(7));
  // The system's authorities do not know this one.
  options_.ca_file.clear();
  EXPECT_THAT(Head(At("/f")), StatusIs(Code::kPermissionDenied));
  options_.ca_file = certificates_.Authority();
  Serve("other");
  EXPECT_THAT(Head(At("/f")), StatusIs(Code::kPermissionDenied));
}

TEST_F(TlsObjectClientTest, RedirectsLeadOnlyWhereTheyMay) {
  const std::string target = server_->Url("/f?Signature=HUSH");
  ObjectLocation location = At(To(target));
  absl::StatusOr<ObjectVersion> version = Head(location);
  EXPECT_THAT(version,
              StatusIs(Code::kPermissionDenied,
                       HasSubstr("redirects (HTTP 302) to 127.0.0.1")));
  EXPECT_THAT(version.status().ToString(), Not(HasSubstr("HUSH")));
  std::vector<std::string> asked;
  location.may_redirect = [&](const std::string& url) {
    asked.push_back(url);
    return url == target;
  };
  ASSERT_OK(Read(location, 3));
  EXPECT_EQ(received_, data_.substr(3));
  EXPECT_THAT(asked, ElementsAre(target, target));
}

}  // namespace
}  // namespace comera::worker
