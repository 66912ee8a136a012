// Queues over real gRPC.
#include "comera/v1/queue_service.grpc.pb.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;

class QueueServiceTest : public ServerFixture {
 protected:
  std::unique_ptr<v1::QueueService::Stub> Stub() {
    return v1::QueueService::NewStub(channel_);
  }

  v1::Queue Make(const std::string& id, int guaranteed) {
    v1::CreateQueueRequest request;
    request.set_queue_id(id);
    request.mutable_queue()->set_guaranteed_processes(guaranteed);
    v1::Queue queue;
    const grpc::Status status =
        Stub()->CreateQueue(Context().get(), request, &queue);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return queue;
  }

  grpc::Status Fetch(const std::string& name, v1::Queue* queue) {
    v1::GetQueueRequest request;
    request.set_name(name);
    return Stub()->GetQueue(Context().get(), request, queue);
  }
};

TEST_F(QueueServiceTest, QueuesOutliveTheServerAndShowTheirUse) {
  Make("vision", 4);
  v1::JobSpec spec = TestSpec(2);
  spec.set_queue("vision");
  Create(spec);
  RestartServer();
  v1::Queue queue;
  ASSERT_TRUE(Fetch("queues/vision", &queue).ok());
  EXPECT_EQ(queue.guaranteed_processes(), 4);
  EXPECT_EQ(queue.queued_jobs(), 1);
  EXPECT_EQ(queue.queued_processes(), 2);
  Worker w1{"w1"};
  RunAll(w1);
  ASSERT_TRUE(Fetch("queues/vision", &queue).ok());
  EXPECT_EQ(queue.queued_jobs(), 0);
  EXPECT_EQ(queue.running_processes(), 2);
  v1::DeleteQueueRequest deletion;
  deletion.set_name("queues/vision");
  v1::DeleteQueueResponse deleted;
  EXPECT_EQ(
      Stub()->DeleteQueue(Context().get(), deletion, &deleted).error_code(),
      grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(QueueServiceTest, ListsPageByPage) {
  for (const char* id : {"c", "a", "b"}) Make(id, 0);
  v1::ListQueuesRequest request;
  request.set_page_size(3);
  v1::ListQueuesResponse page;
  ASSERT_TRUE(Stub()->ListQueues(Context().get(), request, &page).ok());
  ASSERT_EQ(page.queues_size(), 3);
  EXPECT_EQ(page.queues(0).name(), "queues/a");
  request.set_page_token(page.next_page_token());
  ASSERT_TRUE(Stub()->ListQueues(Context().get(), request, &page).ok());
  ASSERT_EQ(page.queues_size(), 1);
  EXPECT_EQ(page.queues(0).name(), "queues/default");
  EXPECT_EQ(page.next_page_token(), "");
  request.set_page_size(1001);
  EXPECT_EQ(Stub()->ListQueues(Context().get(), request, &page).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(QueueServiceTest, AJobNeedsAQueueThatExists) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = TestSpec(1);
  request.mutable_spec()->set_queue("nowhere");
  v1::Job job;
  const grpc::Status status =
      training_->CreateJob(Context().get(), request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("nowhere"));
  v1::Queue queue;
  EXPECT_EQ(Fetch("queues/nowhere", &queue).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Fetch("nowhere", &queue).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace comera::server
