// Tests what a worker makes of a coordinator's refusals.
#include "worker/data/blob_source.h"

#include <memory>
#include <string>

#include "comera/v1/dataset_service.grpc.pb.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

// Sends a few bytes, then ends as it is told.
class EndingDatasets : public v1::DatasetService::Service {
 public:
  grpc::Status DownloadBlob(
      grpc::ServerContext*, const v1::DownloadBlobRequest*,
      grpc::ServerWriter<v1::DownloadBlobResponse>* writer) override {
    v1::DownloadBlobResponse part;
    part.set_data("some");
    writer->Write(part);
    return end;
  }

  grpc::Status end;
};

// A limit of the coordinator passes. ResourceExhausted would mean that this
// worker's disk is full, and would end the job's attempt.
TEST(RemoteBlobsTest, TheCoordinatorsLimitsAreTriedAgain) {
  EndingDatasets service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  RemoteBlobs blobs(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                        grpc::InsecureChannelCredentials()));
  const std::atomic<bool> cancelled{false};
  std::string data;
  const auto fetch = [&] {
    data.clear();
    return blobs.Fetch(std::string(64, 'a'), 0, cancelled,
                       [&](std::string_view part) {
                         data += part;
                         return absl::OkStatus();
                       });
  };
  EXPECT_OK(fetch());
  service.end = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                             "64 downloads (--worker_downloads)");
  EXPECT_THAT(fetch(), StatusIs(absl::StatusCode::kUnavailable,
                                ::testing::HasSubstr("--worker_downloads")));
  EXPECT_EQ(data, "some");
  service.end = grpc::Status(grpc::StatusCode::NOT_FOUND, "none");
  EXPECT_THAT(fetch(), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera::worker
