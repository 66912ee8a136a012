// When a call has ended, nothing of it holds the channel any more: gRPC 1.51
// aborts when the last channel is dropped by a thread that runs callbacks.
#include "server/http/api_calls.h"

#include <future>
#include <memory>
#include <string>

#include "comera/v1/training_service.grpc.pb.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

class PlayedService : public v1::TrainingService::Service {
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* job) override {
    job->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(
      grpc::ServerContext*, const v1::WatchJobRequest* request,
      grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    v1::WatchJobResponse response;
    response.mutable_job()->set_name(request->name());
    writer->Write(response);
    return grpc::Status::OK;
  }
};

class ApiCallsTest : public ::testing::Test {
 protected:
  ApiCallsTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel(grpc::ChannelArguments());
    calls_ = std::make_unique<ApiCalls>(channel_, &forwarded_);
    holders_ = channel_.use_count();
  }

  PlayedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  ForwardedCalls forwarded_;
  std::unique_ptr<ApiCalls> calls_;
  // The channel's owners while there is no call.
  int64_t holders_ = 0;
};

TEST_F(ApiCallsTest, ACallThatIsStillHeldDoesNotHoldTheChannel) {
  v1::GetJobRequest request;
  request.set_name("jobs/1");
  std::promise<int64_t> holders;
  v1::Job job;
  const auto call = calls_->Unary(
      ApiMethod("comera.v1.TrainingService.GetJob"), request, {},
      absl::Seconds(20), [&](const grpc::Status& status, std::string wire) {
        EXPECT_TRUE(status.ok());
        EXPECT_TRUE(job.ParseFromString(wire));
        holders.set_value(channel_.use_count());
      });
  EXPECT_EQ(holders.get_future().get(), holders_);
  EXPECT_EQ(job.name(), "jobs/1");
  call->Cancel();
}

TEST_F(ApiCallsTest, AStreamThatIsStillHeldDoesNotHoldTheChannel) {
  v1::WatchJobRequest request;
  request.set_name("jobs/1");
  std::promise<int64_t> holders;
  v1::WatchJobResponse response;
  std::shared_ptr<ApiCalls::Stream> stream;
  stream = calls_->ServerStream(
      ApiMethod("comera.v1.TrainingService.WatchJob"), request, {},
      {[&](std::string wire) {
         EXPECT_TRUE(response.ParseFromString(wire));
         stream->Read();
       },
       [&](const grpc::Status& status) {
         EXPECT_TRUE(status.ok());
         holders.set_value(channel_.use_count());
       }});
  stream->Read();
  EXPECT_EQ(holders.get_future().get(), holders_);
  EXPECT_EQ(response.job().name(), "jobs/1");
  stream->Cancel();
}

}  // namespace
}  // namespace comera::server
