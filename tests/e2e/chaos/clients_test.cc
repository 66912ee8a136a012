// Tries the clients that ask for what should not be, at a coordinator that does
// as the test says.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/coordinator_address.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "tests/e2e/chaos/late_upload.h"
#include "tests/e2e/chaos/term_client.h"
#include "tests/e2e/chaos/writes_health.h"

namespace comera::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class Trainings : public v1::TrainingService::Service {
 public:
  int64_t term = 0;
  v1::Job job;

 private:
  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListJobsRequest*,
                        v1::ListJobsResponse* response) override {
    if (term > 0) {
      context->AddTrailingMetadata(kTermMetadata, absl::StrCat(term));
    }
    *response->add_jobs() = job;
    return grpc::Status::OK;
  }
};

class Uploads : public v1::WorkerService::Service {
 public:
  int64_t attempt = 0;

 private:
  grpc::Status UploadArtifact(
      grpc::ServerContext*,
      grpc::ServerReader<v1::UploadArtifactRequest>* reader,
      v1::UploadArtifactResponse*) override {
    v1::UploadArtifactRequest request;
    reader->Read(&request);
    if (request.header().attempt() != attempt) {
      return grpc::Status(grpc::StatusCode::ABORTED, "no such attempt");
    }
    while (reader->Read(&request)) {
    }
    return grpc::Status::OK;
  }
};

class ClientsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&trainings_);
    builder.RegisterService(&uploads_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  Trainings trainings_;
  Uploads uploads_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(ClientsTest, TermsOfAnswersAreKeptAndTheFenceRefusesOldOnes) {
  TermClient client({address_}, ::testing::TempDir() + "/clients_test.term");
  // One that follows.
  client.Ask(0);
  EXPECT_THAT(client.answers(), SizeIs(0));
  trainings_.term = 4;
  client.Ask(0);
  ASSERT_THAT(client.answers(), SizeIs(2));
  EXPECT_FALSE(client.answers()[0].fenced);
  EXPECT_TRUE(client.answers()[1].fenced);
  trainings_.term = 3;
  client.Ask(0);
  ASSERT_THAT(client.answers(), SizeIs(3));
  EXPECT_FALSE(client.answers()[2].fenced);
  EXPECT_EQ(client.answers()[2].term, 3);
  EXPECT_EQ(client.answers()[2].newest, 4);
}

TEST_F(ClientsTest, AnUploadOfAnAttemptThatIsOver) {
  LateUpload client(address_);
  trainings_.job.set_name("jobs/aaaaaaaaaaaa");
  trainings_.job.set_attempt(1);
  // There was none before.
  EXPECT_EQ(client.Send(), "");
  trainings_.job.set_attempt(3);
  uploads_.attempt = 3;
  EXPECT_EQ(client.Send(), "jobs/aaaaaaaaaaaa");
  EXPECT_EQ(client.violation(), "");
  uploads_.attempt = 2;
  EXPECT_EQ(client.Send(), "jobs/aaaaaaaaaaaa");
  EXPECT_THAT(client.violation(), HasSubstr("attempt 2"));
}

TEST_F(ClientsTest, ACoordinatorThatTakesNoChangesSaysSo) {
  EXPECT_FALSE(SaysWritable(address_));
  auto* const health = server_->GetHealthCheckService();
  health->SetServingStatus("comera.v1.Writes", true);
  EXPECT_TRUE(SaysWritable(address_));
  health->SetServingStatus("comera.v1.Writes", false);
  EXPECT_FALSE(SaysWritable(address_));
  server_->Shutdown();
  EXPECT_FALSE(SaysWritable(address_));
}

}  // namespace
}  // namespace comera::e2e
