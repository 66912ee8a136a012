// Tests how queues are listed with their use.
#include "server/coordinator/queue/queue_directory.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

bool ShowAll(const std::string&) { return true; }

class QueueDirectoryTest : public ::testing::Test {
 protected:
  CoordinatorParts parts_;
  QueueDirectory directory_{&parts_.jobs, &parts_.queues};
};

TEST_F(QueueDirectoryTest, CountsWhatTheQueuesJobsHaveAndWant) {
  parts_.AddWorker("w1");
  parts_.StartJob("a", "w1", 2);
  parts_.AddJob("b", 3);
  const v1::Queue queue = *directory_.Get("queues/default");
  EXPECT_EQ(queue.running_jobs(), 1);
  EXPECT_EQ(queue.running_processes(), 2);
  EXPECT_EQ(queue.queued_jobs(), 1);
  EXPECT_EQ(queue.queued_processes(), 3);
  EXPECT_THAT(directory_.Get("queues/none"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(QueueDirectoryTest, AQueueIsInUseUntilItsJobsHaveEnded) {
  JobEntry& entry = parts_.AddJob("a");
  EXPECT_THAT(directory_.CheckUnused("queues/default"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::CANCELLED, "", &op);
  EXPECT_OK(directory_.CheckUnused("queues/default"));
}

TEST_F(QueueDirectoryTest, ListsPageByPage) {
  std::vector<Document> documents;
  for (const char* id : {"a", "b"}) {
    v1::CreateQueueRequest request;
    request.set_queue_id(id);
    ASSERT_OK(parts_.queues.Create(request, parts_.now, &documents));
  }
  v1::ListQueuesRequest request;
  request.set_page_size(2);
  v1::ListQueuesResponse page = *directory_.List(request, ShowAll);
  EXPECT_THAT(page.queues(), SizeIs(2));
  request.set_page_token(page.next_page_token());
  page = *directory_.List(request, ShowAll);
  ASSERT_THAT(page.queues(), SizeIs(1));
  EXPECT_EQ(page.queues(0).name(), "queues/default");
  EXPECT_EQ(page.next_page_token(), "");
  request.set_page_size(-1);
  EXPECT_THAT(directory_.List(request, ShowAll),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(QueueDirectoryTest, PagesHoldWhatIsVisibleOnly) {
  std::vector<Document> documents;
  for (const char* id : {"a", "b", "c"}) {
    v1::CreateQueueRequest request;
    request.set_queue_id(id);
    ASSERT_OK(parts_.queues.Create(request, parts_.now, &documents));
  }
  const auto visible = [](const std::string& queue) {
    return queue == "b" || queue == "c";
  };
  v1::ListQueuesRequest request;
  request.set_page_size(1);
  v1::ListQueuesResponse page = *directory_.List(request, visible);
  ASSERT_THAT(page.queues(), SizeIs(1));
  EXPECT_EQ(page.queues(0).name(), "queues/b");
  request.set_page_token(page.next_page_token());
  page = *directory_.List(request, visible);
  ASSERT_THAT(page.queues(), SizeIs(1));
  EXPECT_EQ(page.queues(0).name(), "queues/c");
  // What follows is not visible, and nothing tells of it.
  EXPECT_EQ(page.next_page_token(), "");
}

}  // namespace
}  // namespace comera::server
