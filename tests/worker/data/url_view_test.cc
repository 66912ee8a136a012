// Checks that the URLs in a job's spec become local files: which are allowed,
// how they are cached, and what happens when they change.

#include "worker/data/url_view.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_url.h"
#include "tests/security/certificates.h"
#include "tests/worker/object_store/object_server.h"
#include "worker/data/data_roots.h"

namespace comera::worker {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

class UrlViewTest : public ::testing::Test {
 protected:
  UrlViewTest() {
    setenv("no_proxy", "*", 1);
    folder_ = ::testing::TempDir() + "/urls_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    EXPECT_OK(MakeDirectories(folder_ + "/objects/bucket/c"));
    Write("c/a.txt", "some text");
    server_ = std::make_unique<ObjectServer>(folder_ + "/objects");
    EXPECT_NE(server_->port(), "");
    options_.prefixes = {"s3://bucket/c/", "s3://cut-4/bucket/c"};
    options_.s3_endpoint = server_->Url("");
    options_.client.min_backoff = absl::Milliseconds(1);
    options_.client.max_backoff = absl::Milliseconds(1);
    cache_options_.min_free_bytes = 0;
    Open();
  }
  ~UrlViewTest() override {
    lease_.reset();
    cache_.reset();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    lease_.reset();
    cache_.reset();
    cache_ = *DatasetCache::Open(folder_ + "/cache", cache_options_);
    lease_ = std::make_unique<DatasetCache::Lease>(cache_.get());
  }

  void Write(const std::string& name, const std::string& contents) {
    EXPECT_OK(
        WriteFileAtomically(folder_ + "/objects/bucket/" + name, contents));
  }

  static v1::JobSpec Spec(const std::vector<std::string>& train) {
    v1::JobSpec spec;
    for (const std::string& path : train) {
      spec.mutable_data()->mutable_text()->add_train(path);
    }
    return spec;
  }

  absl::StatusOr<v1::JobSpec> Fetch(const v1::JobSpec& spec) {
    const auto files = RemoteFiles::Create(options_);
    if (!files.ok()) return files.status();
    return FetchUrls(
        spec, files->get(), cache_.get(), cancelled_,
        [this](const FetchProgress& progress) { progress_ = progress; },
        lease_.get());
  }
  // The local path of a URL.
  absl::StatusOr<std::string> FetchOne(const std::string& url) {
    const absl::StatusOr<v1::JobSpec> spec = Fetch(Spec({url}));
    if (!spec.ok()) return spec.status();
    return spec->data().text().train(0);
  }

  // How many requests of this kind the server has seen.
  int Requests(const std::string& method) const {
    const absl::StatusOr<std::string> log =
        ReadFile(folder_ + "/objects/requests");
    int count = 0;
    for (const auto line : absl::StrSplit(log.ok() ? *log : "", '\n')) {
      count += absl::StartsWith(line, method) ? 1 : 0;
    }
    return count;
  }

  std::string folder_;
  std::unique_ptr<ObjectServer> server_;
  RemoteFiles::Options options_;
  DatasetCache::Options cache_options_;
  std::unique_ptr<DatasetCache> cache_;
  std::unique_ptr<DatasetCache::Lease> lease_;
  std::atomic<bool> cancelled_{false};
  FetchProgress progress_;
};

TEST_F(UrlViewTest, UrlsBecomeLocalFilesOfTheSameName) {
  Write("c/b.csv", "a,b");
  ASSERT_OK_AND_ASSIGN(
      const v1::JobSpec spec,
      Fetch(Spec({"s3://bucket/c/a.txt", "/local/file", "s3://bucket/c/b.csv",
                  "s3://bucket/c/a.txt"})));
  const auto& train = spec.data().text().train();
  EXPECT_THAT(train[0], EndsWith("/a.txt"));
  EXPECT_EQ(*ReadFile(train[0]), "some text");
  EXPECT_EQ(train[1], "/local/file");
  EXPECT_THAT(train[2], EndsWith("/b.csv"));
  EXPECT_EQ(*ReadFile(train[2]), "a,b");
  EXPECT_EQ(train[3], train[0]);
  EXPECT_EQ(Requests("GET"), 2);
  EXPECT_EQ(progress_.done_bytes, 12);
  EXPECT_EQ(progress_.total_bytes, 12);
  // Members may not change what others read.
  struct stat info = {};
  ASSERT_EQ(stat(train[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0444u);
}

TEST_F(UrlViewTest, AVersionIsFetchedOnce) {
  ASSERT_OK_AND_ASSIGN(const std::string first,
                       FetchOne("s3://bucket/c/a.txt"));
  ASSERT_OK_AND_ASSIGN(std::string again, FetchOne("s3://bucket/c/a.txt"));
  EXPECT_EQ(again, first);
  // Another process finds it, too.
  Open();
  ASSERT_OK_AND_ASSIGN(again, FetchOne("s3://bucket/c/a.txt"));
  EXPECT_EQ(again, first);
  EXPECT_EQ(*ReadFile(first), "some text");
  EXPECT_EQ(Requests("GET"), 1);
}

TEST_F(UrlViewTest, AChangedFileIsAnotherOne) {
  ASSERT_OK_AND_ASSIGN(const std::string first,
                       FetchOne("s3://bucket/c/a.txt"));
  Write("c/a.txt", "same size");
  ASSERT_OK_AND_ASSIGN(const std::string second,
                       FetchOne("s3://bucket/c/a.txt"));
  EXPECT_NE(FetchedUrlDigest(first), FetchedUrlDigest(second));
  EXPECT_NE(FetchedUrlDigest(first), "");
  // A running member goes on with what it has.
  EXPECT_EQ(*ReadFile(first), "some text");
  EXPECT_EQ(*ReadFile(second), "same size");
  // Equal contents are equal files, whatever their address.
  Write("c/b.txt", "some text");
  ASSERT_OK_AND_ASSIGN(const std::string third,
                       FetchOne("s3://bucket/c/b.txt"));
  EXPECT_EQ(FetchedUrlDigest(first), FetchedUrlDigest(third));
  EXPECT_EQ(cache_->used_bytes(), 18);
}

TEST_F(UrlViewTest, ABrokenTransferGoesOn) {
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       FetchOne("s3://cut-4/bucket/c/a.txt"));
  EXPECT_EQ(*ReadFile(path), "some text");
  EXPECT_EQ(Requests("GET"), 3);
}

TEST_F(UrlViewTest, TheCacheIsBoundedAndEvicts) {
  cache_options_.max_bytes = 20;
  Open();
  ASSERT_OK_AND_ASSIGN(const std::string first,
                       FetchOne("s3://bucket/c/a.txt"));
  Write("c/b.txt", std::string(15, 'b'));
  EXPECT_THAT(
      FetchOne("s3://bucket/c/b.txt"),
      StatusIs(Code::kResourceExhausted,
               AllOf(HasSubstr("data.text.train[0]: s3://bucket/c/b.txt: "),
                     HasSubstr("--cache_bytes"))));
  lease_ = std::make_unique<DatasetCache::Lease>(cache_.get());
  EXPECT_OK(FetchOne("s3://bucket/c/b.txt"));
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_EQ(cache_->used_bytes(), 15);
  lease_ = std::make_unique<DatasetCache::Lease>(cache_.get());
  EXPECT_OK(FetchOne("s3://bucket/c/a.txt"));
  EXPECT_EQ(Requests("GET"), 3);
}

TEST_F(UrlViewTest, OnlyWhatTheOperatorAllowsIsAskedFor) {
  for (const char* url :
       {"s3://bucket/a.txt", "s3://bucket/cc/a.txt", "s3://other/c/a.txt",
        "https://bucket/c/a.txt?x=HUSH"}) {
    const absl::StatusOr<std::string> path = FetchOne(url);
    EXPECT_THAT(path, StatusIs(Code::kInvalidArgument,
                               AllOf(HasSubstr("data.text.train[0]: "),
                                     HasSubstr("--data_url"))));
    EXPECT_THAT(path.status().ToString(), Not(HasSubstr("HUSH")));
  }
  EXPECT_THAT(FetchOne("gs://bucket/c/a.txt"),
              StatusIs(Code::kInvalidArgument, HasSubstr("gs://")));
  options_.prefixes.clear();
  EXPECT_THAT(FetchOne("s3://bucket/c/a.txt"),
              StatusIs(Code::kInvalidArgument, HasSubstr("--data_url")));
  EXPECT_THAT(FetchUrls(
                  Spec({"s3://bucket/c/a.txt"}), nullptr, cache_.get(),
                  cancelled_, [](const FetchProgress&) {}, lease_.get()),
              StatusIs(Code::kInvalidArgument, HasSubstr("--data_url")));
  EXPECT_EQ(Requests("HEAD") + Requests("GET"), 0);
}

TEST_F(UrlViewTest, ErrorsTellFieldAndUrl) {
  EXPECT_THAT(FetchOne("s3://bucket/c/none.txt"),
              StatusIs(Code::kNotFound,
                       HasSubstr("data.text.train[0]: s3://bucket/c/none.txt: "
                                 "the server answers with HTTP 404")));
}

TEST_F(UrlViewTest, AFaultOfTheWorkerIsNotTheJobs) {
  options_.s3_credentials_file = folder_ + "/key";
  ASSERT_OK(WriteFileAtomically(
      folder_ + "/key",
      "[default]\naws_access_key_id=a\naws_secret_access_key=b\n"));
  std::filesystem::permissions(folder_ + "/key", std::filesystem::perms(0600));
  const auto files = RemoteFiles::Create(options_);
  ASSERT_OK(files);
  const auto fetch = [&] {
    return FetchUrls(
               Spec({"s3://bucket/c/a.txt"}), files->get(), cache_.get(),
               cancelled_, [](const FetchProgress&) {}, lease_.get())
        .status();
  };
  // The key is being replaced.
  for (const char* contents : {"[default]\naws_acc", ""}) {
    ASSERT_OK(WriteFileAtomically(folder_ + "/key", contents));
    std::filesystem::permissions(folder_ + "/key",
                                 std::filesystem::perms(0600));
    EXPECT_THAT(fetch(), StatusIs(Code::kUnavailable, HasSubstr("key for S3")));
    EXPECT_THAT(fetch().message(), Not(HasSubstr(folder_)));
  }
  std::filesystem::remove(folder_ + "/key");
  EXPECT_THAT(fetch(), StatusIs(Code::kUnavailable, HasSubstr("key for S3")));
  // Neither is a cache that cannot be written.
  ASSERT_OK(WriteFileAtomically(
      folder_ + "/key",
      "[default]\naws_access_key_id=a\naws_secret_access_key=b\n"));
  std::filesystem::permissions(folder_ + "/key", std::filesystem::perms(0600));
  std::filesystem::remove_all(folder_ + "/cache/partial");
  EXPECT_THAT(fetch(),
              StatusIs(Code::kFailedPrecondition, HasSubstr("cache of data")));
  EXPECT_THAT(fetch().message(), Not(HasSubstr(folder_)));
}

TEST_F(UrlViewTest, AJobMayReadItsUrlsAndNoOthers) {
  DataRoots::Options roots;
  roots.own = {folder_};
  roots.views = folder_ + "/cache/views";
  ASSERT_OK_AND_ASSIGN(const DataRoots allowed, DataRoots::Create(roots));
  const v1::JobSpec named = Spec({"s3://bucket/c/a.txt"});
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec fetched, Fetch(named));
  google::protobuf::RepeatedPtrField<v1::DatasetPin> pins;
  // The same path, named by a job that has no URL.
  PinUrls(fetched, fetched, &pins);
  EXPECT_THAT(allowed.Check(fetched, pins), StatusIs(Code::kInvalidArgument));
  PinUrls(named, fetched, &pins);
  EXPECT_OK(allowed.Check(fetched, pins));
}

TEST_F(UrlViewTest, MalformedFlagsAreNamed) {
  const auto create = [](const RemoteFiles::Options& options) {
    return RemoteFiles::Create(options).status();
  };
  RemoteFiles::Options options;
  options.prefixes = {"http://h/"};
  EXPECT_THAT(create(options),
              StatusIs(Code::kInvalidArgument, HasSubstr("data_url")));
  options = {};
  options.s3_endpoint = "minio";
  EXPECT_THAT(create(options),
              StatusIs(Code::kInvalidArgument, HasSubstr("s3_endpoint")));
  options = {};
  options.s3_credentials.access_key_id = "id";
  EXPECT_THAT(create(options), StatusIs(Code::kInvalidArgument));
  options = {};
  options.s3_credentials_file = folder_ + "/none";
  EXPECT_THAT(create(options),
              StatusIs(Code::kNotFound, HasSubstr("s3_credentials_file")));
  options = {};
  options.client.ca_file = folder_ + "/none";
  EXPECT_THAT(create(options), StatusIs(Code::kNotFound, HasSubstr("data_ca")));
}

TEST_F(UrlViewTest, HttpsIsVerifiedAndRedirectedWithinThePrefixes) {
  Certificates certificates(folder_);
  certificates.Issue("server", "IP:127.0.0.1");
  server_ = std::make_unique<ObjectServer>(folder_ + "/objects",
                                           certificates.Certificate("server"),
                                           certificates.Key("server"));
  const std::string target = server_->Url("/bucket/c/a.txt?Signature=HUSH");
  const std::string redirect = server_->Url(
      absl::StrCat("/to-", absl::WebSafeBase64Escape(target), "/f.txt"));
  options_.prefixes = {server_->Url("/bucket/")};
  EXPECT_THAT(FetchOne(server_->Url("/bucket/c/a.txt")),
              StatusIs(Code::kInvalidArgument, HasSubstr("certificate")));
  options_.client.ca_file = certificates.Authority();
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       FetchOne(server_->Url("/bucket/c/a.txt?x=1")));
  EXPECT_EQ(*ReadFile(path), "some text");
  EXPECT_THAT(path, EndsWith("/a.txt"));
  options_.prefixes = {redirect.substr(0, redirect.rfind('/'))};
  const absl::StatusOr<std::string> away = FetchOne(redirect);
  EXPECT_THAT(away, StatusIs(Code::kInvalidArgument, HasSubstr("redirects")));
  EXPECT_THAT(away.status().ToString(), Not(HasSubstr("HUSH")));
  options_.prefixes.push_back(server_->Url("/bucket/c/"));
  ASSERT_OK_AND_ASSIGN(const std::string followed, FetchOne(redirect));
  EXPECT_EQ(*ReadFile(followed), "some text");
}

}  // namespace
}  // namespace comera::worker
