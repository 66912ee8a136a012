// Checks what one user may upload, download and keep in datasets, over real
// gRPC: each test is an attack on everybody else's share, and fails.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "common/files.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/server/daemon/quota_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

TEST_F(QuotaTest, DatasetsCountAndSoDoFilesInNone) {
  quota().datasets = 1;
  // The list of a dataset of one file has about 80 bytes.
  quota().dataset_bytes = 1150;
  Begin();
  const std::string first(600, 'a'), second(600, 'b'), small(300, 'c');
  EXPECT_EQ(UploadAs(alice_, first).error_code(), Code::OK);
  grpc::Status status = UploadAs(alice_, second);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("alice has 600 bytes of datasets; the limit for a user "
                        "is 1150 (--user_dataset_bytes"));
  EXPECT_EQ(UploadAs(bob_, second).error_code(), Code::OK);
  EXPECT_EQ(DatasetAs(alice_, "one", first).error_code(), Code::OK);
  // Now in a dataset, and counted once.
  EXPECT_EQ(UploadAs(alice_, std::string(600, 'd')).error_code(),
            Code::RESOURCE_EXHAUSTED);
  EXPECT_EQ(UploadAs(alice_, small).error_code(), Code::OK);
  status = DatasetAs(alice_, "two", small);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_datasets"));
  // Another's bytes count where they are in one's dataset.
  status = DatasetAs(alice_, "one", second);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_dataset_bytes"));
  EXPECT_EQ(DatasetAs(alice_, "one", small).error_code(), Code::OK);
}

// The attack: two streams that announced a quota's worth and sent nothing held
// it against everybody.
TEST_F(QuotaTest, IdleUploadsHoldNothingAndEnd) {
  options_.datasets.blobs.quota_bytes = 2000;
  options_.security.limits.max_uploads = 2;
  Begin();
  const std::string one(1500, 'a'), two(1500, 'b'), other(1500, 'c');
  const auto first = Announce(alice_, one, 10);
  const auto second = Announce(alice_, two, 10);
  // Until both have arrived.
  ASSERT_TRUE(Await([&] { return Arrived(one) == 10 && Arrived(two) == 10; }));
  EXPECT_EQ(UploadAs(bob_, other).error_code(), Code::OK);
  // A third one of the same user has to wait.
  const grpc::Status third = UploadAs(alice_, std::string(5, 'x'));
  EXPECT_EQ(third.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(third.error_message(), HasSubstr("--user_uploads"));
  clock_.Advance(absl::Seconds(31));
  grpc::Status status = first->writer->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("no data came for 30s"));
  EXPECT_EQ(second->writer->Finish().error_code(), Code::UNAVAILABLE);
  // What arrived is kept, and their places are free.
  EXPECT_EQ(Arrived(one), 10);
  EXPECT_TRUE(
      Await([&] { return UploadAs(alice_, std::string(5, 'x')).ok(); }));
}

TEST_F(QuotaTest, AnUploadThatOutgrowsTheQuotaEndsThere) {
  options_.datasets.blobs.quota_bytes = 2000;
  Begin();
  const std::string one(1500, 'a'), two(1500, 'b');
  const auto first = Announce(alice_, one, 1000);
  ASSERT_TRUE(Await([&] { return Arrived(one) == 1000; }));
  const auto second = Announce(bob_, two);
  v1::UploadBlobRequest request;
  request.set_data(two);
  second->writer->Write(request);
  second->writer->WritesDone();
  EXPECT_EQ(second->writer->Finish().error_code(), Code::RESOURCE_EXHAUSTED);
  request.set_data(one.substr(1000));
  first->writer->Write(request);
  first->writer->WritesDone();
  EXPECT_TRUE(first->writer->Finish().ok());
}

// The attack: lists of many files that are all one empty blob counted as no
// bytes, and were stored before anything was checked.
TEST_F(QuotaTest, ListsOfFilesCountAndAreStoredOnlyIfTheyAreTaken) {
  quota().dataset_bytes = 18000;
  Begin();
  ASSERT_TRUE(UploadAs(alice_, "").ok());
  v1::CreateDatasetRequest request;
  request.set_dataset_id("empty");
  // Adds as many files, with lists of about 100 bytes for each.
  int files = 0;
  const auto add = [&](int count) {
    for (const int end = files + count; files < end; ++files) {
      v1::DatasetFile& file = *request.add_files();
      file.set_path(absl::StrCat("a-name-of-some-length/", files));
      file.set_sha256(Sha256Hex(""));
    }
  };
  v1::Dataset dataset;
  const auto create = [&] {
    return datasets_->CreateDataset(As(alice_).get(), request, &dataset);
  };
  for (int i = 0; i < 64; ++i)
    (*request.mutable_labels())[absl::StrCat(i)] = "v";
  add(50);
  ASSERT_TRUE(create().ok());
  EXPECT_EQ(dataset.versions(0).size_bytes(), 0);
  const int64_t blobs = Blobs();
  // Fails only with the labels that the dataset has.
  request.mutable_labels()->erase("0");
  (*request.mutable_labels())["one-more"] = "v";
  add(1);
  grpc::Status status = create();
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("labels: at most 64"));
  EXPECT_EQ(Blobs(), blobs);
  request.clear_labels();
  add(200);
  status = create();
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_dataset_bytes"));
  EXPECT_EQ(Blobs(), blobs);
  // Small ones count together, and count no more when they have gone.
  request.clear_files();
  add(50);
  ASSERT_TRUE(create().ok());
  add(1);
  ASSERT_TRUE(create().ok());
  add(1);
  EXPECT_EQ(create().error_code(), Code::RESOURCE_EXHAUSTED);
  v1::DeleteDatasetRequest deletion;
  deletion.set_name("datasets/empty@1");
  v1::DeleteDatasetResponse deleted;
  ASSERT_TRUE(
      datasets_->DeleteDataset(As(alice_).get(), deletion, &deleted).ok());
  EXPECT_TRUE(create().ok());
}

// The attack: calls of 16 MiB waited for one another, as many as one liked.
TEST_F(QuotaTest, ChangesOfDatasetsThatWaitAreBounded) {
  options_.security.limits.max_dataset_changes = 1;
  options_.security.limits.max_dataset_request_bytes = 2000;
  Begin();
  // Each gives its place back, soon after its answer.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(UploadAs(alice_, "x").ok());
    EXPECT_TRUE(Await([&] { return DatasetAs(alice_, "one", "x").ok(); }));
    EXPECT_TRUE(Await([&] {
      return DatasetAs(alice_, "two", "none").error_code() ==
             Code::FAILED_PRECONDITION;
    }));
    v1::DeleteDatasetRequest deletion;
    deletion.set_name("datasets/one");
    v1::DeleteDatasetResponse deleted;
    EXPECT_TRUE(Await([&] {
      return datasets_->DeleteDataset(As(alice_).get(), deletion, &deleted)
          .ok();
    }));
  }
  v1::CreateDatasetRequest large;
  large.set_dataset_id("large");
  for (int i = 0; i < 30; ++i) {
    v1::DatasetFile& file = *large.add_files();
    file.set_path(absl::StrCat(i));
    file.set_size_bytes(1);
    file.set_sha256(Sha256Hex("x"));
  }
  v1::Dataset dataset;
  grpc::Status status =
      datasets_->CreateDataset(As(alice_).get(), large, &dataset);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 2000"));
}

TEST_F(QuotaTest, WhoeverHasTooManyChangesWaitingIsTold) {
  options_.security.limits.max_dataset_changes = 0;
  Begin();
  const grpc::Status status = DatasetAs(alice_, "one", "x");
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("changes of datasets waiting"));
}

// The attack: downloads that nobody reads hold a piece of their file each.
TEST_F(QuotaTest, StalledDownloadsAreFewAndEnd) {
  options_.security.limits.max_downloads = 1;
  options_.security.limits.max_worker_downloads = 0;
  Begin();
  const std::string data(16 * kMiB, 'a'), small(100, 'b');
  ASSERT_TRUE(UploadAs(bob_, small).ok());
  const auto upload = Announce(bob_, data);
  v1::UploadBlobRequest part;
  for (int i = 0; i < 16; ++i) {
    part.set_data(data.substr(0, kMiB));
    upload->writer->Write(part);
  }
  upload->writer->WritesDone();
  ASSERT_TRUE(upload->writer->Finish().ok());
  // What is not read stays with the server, however fast the line is.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto slow = v1::DatasetService::NewStub(grpc::CreateCustomChannel(
      server_->address(), grpc::InsecureChannelCredentials(), arguments));
  const auto context = As(alice_);
  v1::DownloadBlobRequest request;
  request.set_sha256(Sha256Hex(data));
  const auto stalled = slow->DownloadBlob(context.get(), request);
  v1::DownloadBlobResponse piece;
  ASSERT_TRUE(stalled->Read(&piece));
  const auto download = [&](const std::string& secret) {
    v1::DownloadBlobRequest other;
    other.set_sha256(Sha256Hex(small));
    auto own = As(secret);
    auto reader = datasets_->DownloadBlob(own.get(), other);
    v1::DownloadBlobResponse all;
    while (reader->Read(&all)) {
    }
    return reader->Finish();
  };
  grpc::Status status = download(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_downloads"));
  EXPECT_TRUE(download(bob_).ok());
  status = download(Token(root_, "w1", v1::ROLE_UNSPECIFIED, true));
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--worker_downloads"));
  // The piece that is not taken may begin its minute later than the clock
  // moves.
  EXPECT_TRUE(Await([&] {
    clock_.Advance(absl::Seconds(61));
    return download(alice_).ok();
  }));
  while (stalled->Read(&piece)) {
  }
  status = stalled->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(),
              HasSubstr("a piece was not taken for 1m"));
}

TEST_F(QuotaTest, UploadsAndDownloadsAreStreams) {
  options_.security.limits.max_streams = 1;
  Begin();
  const std::string data(100, 'a'), more(100, 'b');
  ASSERT_TRUE(UploadAs(bob_, data).ok());
  const auto open = Announce(alice_, more, 10);
  ASSERT_TRUE(Await([&] { return Arrived(more) == 10; }));
  v1::DownloadBlobRequest request;
  request.set_sha256(Sha256Hex(data));
  v1::DownloadBlobResponse part;
  const auto download = [&](const std::string& secret) {
    auto context = As(secret);
    auto reader = datasets_->DownloadBlob(context.get(), request);
    while (reader->Read(&part)) {
    }
    return reader->Finish();
  };
  const grpc::Status status = download(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_streams"));
  EXPECT_TRUE(download(viewer_).ok());
}

}  // namespace
}  // namespace comera::server
