// Tests how queues are changed and loaded.
#include "server/coordinator/queue/queue_table.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1000000);

v1::CreateQueueRequest Creation(const std::string& id, int guaranteed,
                                int max) {
  v1::CreateQueueRequest request;
  request.set_queue_id(id);
  request.mutable_queue()->set_guaranteed_processes(guaranteed);
  request.mutable_queue()->set_max_processes(max);
  return request;
}

TEST(QueueTableTest, TheDefaultQueueIsAlwaysThere) {
  QueueTable table;
  ASSERT_NE(table.Find(kDefaultQueue), nullptr);
  EXPECT_TRUE(table.Find(kDefaultQueue)->borrowing());
  std::vector<Document> documents;
  v1::DeleteQueueRequest request;
  request.set_name("queues/default");
  EXPECT_THAT(table.Delete(request, &documents),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(documents, SizeIs(0));
}

TEST(QueueTableTest, EveryChangeIsDurable) {
  QueueTable table;
  std::vector<Document> documents;
  const auto made = table.Create(Creation("vision", 8, 16), kNow, &documents);
  ASSERT_OK(made);
  EXPECT_EQ(made->name(), "queues/vision");
  EXPECT_EQ(made->weight(), 1);
  EXPECT_TRUE(made->borrowing());
  v1::UpdateQueueRequest update;
  update.mutable_queue()->set_name("queues/vision");
  update.mutable_queue()->set_etag(made->etag());
  update.mutable_queue()->set_weight(3);
  update.mutable_queue()->set_max_processes(99);
  update.mutable_update_mask()->add_paths("weight");
  const auto updated = table.Update(update, &documents);
  ASSERT_OK(updated);
  EXPECT_EQ(updated->weight(), 3);
  EXPECT_EQ(updated->max_processes(), 16) << "not in the mask";
  EXPECT_NE(updated->etag(), made->etag());
  ASSERT_THAT(documents, SizeIs(2));

  QueueTable again;
  ASSERT_OK(again.Load({documents.back()}));
  EXPECT_EQ(again.Find("vision")->weight(), 3);
  v1::DeleteQueueRequest deletion;
  deletion.set_name("queues/vision");
  deletion.set_etag(made->etag());
  EXPECT_THAT(again.Delete(deletion, &documents),
              StatusIs(absl::StatusCode::kAborted));
  deletion.set_etag(updated->etag());
  ASSERT_OK(again.Delete(deletion, &documents));
  EXPECT_EQ(again.Find("vision"), nullptr);
  EXPECT_FALSE(documents.back().body.has_value());
}

TEST(QueueTableTest, RefusesNamingTheField) {
  QueueTable table;
  std::vector<Document> documents;
  const auto refusal = [&](const v1::CreateQueueRequest& request) {
    return table.Create(request, kNow, &documents).status();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(refusal(Creation("No Id", 0, 0)),
              StatusIs(invalid, HasSubstr("queue_id")));
  EXPECT_THAT(refusal(Creation("a", -1, 0)),
              StatusIs(invalid, HasSubstr("guaranteed_processes")));
  EXPECT_THAT(refusal(Creation("a", 4, 2)),
              StatusIs(invalid, HasSubstr("max_processes")));
  v1::CreateQueueRequest request = Creation("a", 0, 0);
  request.mutable_queue()->set_weight(-1);
  EXPECT_THAT(refusal(request), StatusIs(invalid, HasSubstr("weight")));
  request = Creation("a", 0, 0);
  request.mutable_queue()->set_borrowing(false);
  EXPECT_THAT(refusal(request), StatusIs(invalid, HasSubstr("borrowing")));
  EXPECT_THAT(refusal(Creation("default", 0, 0)),
              StatusIs(absl::StatusCode::kAlreadyExists));
  v1::UpdateQueueRequest update;
  update.mutable_queue()->set_name("queues/default");
  EXPECT_THAT(table.Update(update, &documents).status(),
              StatusIs(invalid, HasSubstr("update_mask")));
  update.mutable_update_mask()->add_paths("name");
  EXPECT_THAT(table.Update(update, &documents).status(),
              StatusIs(invalid, HasSubstr("update_mask")));
  update.mutable_queue()->set_etag("7");
  EXPECT_THAT(table.Update(update, &documents).status(),
              StatusIs(absl::StatusCode::kAborted));
  update.mutable_queue()->set_name("queues/none");
  EXPECT_THAT(table.Update(update, &documents).status(),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(documents, SizeIs(0));
  EXPECT_THAT(table.Load({{"queue", "x", "\x01\x02 no queue"}}),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(QueueTableTest, WhoMayRunProgramsIsAField) {
  QueueTable table;
  std::vector<Document> documents;
  v1::UpdateQueueRequest update;
  update.mutable_queue()->set_name("queues/default");
  update.mutable_queue()->set_program_role(v1::ROLE_USER);
  update.mutable_update_mask()->add_paths("program_role");
  ASSERT_OK(table.Update(update, &documents));
  EXPECT_EQ(table.Find(kDefaultQueue)->program_role(), v1::ROLE_USER);
  update.mutable_queue()->set_program_role(v1::ROLE_VIEWER);
  EXPECT_THAT(table.Update(update, &documents).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("queue.program_role")));
}

}  // namespace
}  // namespace comera::server
