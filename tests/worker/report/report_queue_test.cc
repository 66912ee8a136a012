// Checks numbering, repeating and thinning of queued events.

#include "worker/report/report_queue.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;

v1::TrainerEvent Metrics(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_metrics()->set_step(step);
  return event;
}

v1::TrainerEvent Checkpoint(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_checkpoint()->set_step(step);
  return event;
}

google::protobuf::RepeatedPtrField<v1::ProgressReport> Fill(ReportQueue& queue,
                                                            size_t limit) {
  google::protobuf::RepeatedPtrField<v1::ProgressReport> reports;
  size_t bytes = 1 << 20;
  queue.Fill("jobs/a", 2, limit, &bytes, &reports);
  return reports;
}

std::vector<int64_t> Numbers(ReportQueue& queue, size_t limit) {
  std::vector<int64_t> numbers;
  for (const auto& report : Fill(queue, limit)) {
    EXPECT_EQ(report.job(), "jobs/a");
    EXPECT_EQ(report.attempt(), 2);
    numbers.push_back(report.number());
  }
  return numbers;
}

// A member's events are as long as it likes.
TEST(ReportQueueTest, BytesAreBounded) {
  v1::TrainerEvent large;
  large.mutable_failure()->set_message(std::string(1000, 'x'));
  ReportQueue queue(/*capacity=*/2000, /*max_bytes=*/10000);
  for (int i = 0; i < 100; ++i) queue.Add(large);
  EXPECT_EQ(queue.size(), 9);
  EXPECT_THAT(Numbers(queue, 2), ElementsAre(92, 93));
  // What was acknowledged takes no room.
  queue.Acknowledge(100);
  for (int i = 0; i < 9; ++i) queue.Add(large);
  EXPECT_EQ(queue.size(), 9);
}

TEST(ReportQueueTest, RepeatsUntilAcknowledged) {
  ReportQueue queue;
  for (int step = 1; step <= 3; ++step) queue.Add(Metrics(step));
  EXPECT_THAT(Numbers(queue, 10), ElementsAre(1, 2, 3));
  EXPECT_THAT(Numbers(queue, 10), ElementsAre(1, 2, 3));
  queue.Acknowledge(2);
  queue.Add(Metrics(4));
  EXPECT_THAT(Numbers(queue, 10), ElementsAre(3, 4));
  EXPECT_EQ(Fill(queue, 10)[0].event().metrics().step(), 3);
  queue.Acknowledge(1);
  EXPECT_EQ(queue.size(), 2);
  queue.Acknowledge(100);
  EXPECT_EQ(queue.size(), 0);
  queue.Add(Metrics(5));
  EXPECT_THAT(Numbers(queue, 10), ElementsAre(5));
}

TEST(ReportQueueTest, AnEventHasTheNumberOfItsPlace) {
  ReportQueue queue;
  queue.Add(Metrics(1));
  queue.Add(Metrics(2), 1040);
  queue.Add(Metrics(3), 1090);
  // An earlier daemon told more than this one has sent.
  queue.Acknowledge(1040);
  EXPECT_EQ(queue.acknowledged(), 1040);
  EXPECT_THAT(Numbers(queue, 10), ElementsAre(1090));
}

TEST(ReportQueueTest, SendsAtMostTheLimit) {
  ReportQueue queue;
  for (int step = 1; step <= 5; ++step) queue.Add(Metrics(step));
  EXPECT_THAT(Numbers(queue, 2), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(queue, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(Numbers(queue, 2), ElementsAre(1, 2));
}

TEST(ReportQueueTest, SendsAtMostTheBytes) {
  ReportQueue queue;
  for (int step = 1; step <= 3; ++step) queue.Add(Metrics(step));
  const size_t one = Metrics(1).ByteSizeLong();
  google::protobuf::RepeatedPtrField<v1::ProgressReport> reports;
  size_t bytes = 2 * one + 1;
  EXPECT_FALSE(queue.Fill("jobs/a", 2, 10, &bytes, &reports));
  EXPECT_EQ(reports.size(), 2);
  EXPECT_EQ(bytes, 1);
  queue.Acknowledge(2);
  bytes = one;
  EXPECT_TRUE(queue.Fill("jobs/a", 2, 10, &bytes, &reports));
  EXPECT_EQ(reports.rbegin()->number(), 3);
}

TEST(ReportQueueTest, LongDisconnectionThinsMetricsOnly) {
  ReportQueue queue(/*capacity=*/10);
  queue.Add(Metrics(0));
  EXPECT_THAT(Numbers(queue, 1), ElementsAre(1));  // sent, so it stays
  v1::TrainerEvent validation = Metrics(1);
  validation.mutable_metrics()->set_validation_loss(2);
  queue.Add(validation);
  for (int step = 2; step < 500; ++step) {
    queue.Add(step % 100 == 0 ? Checkpoint(step) : Metrics(step));
  }
  v1::TrainerEvent result;
  result.mutable_result()->set_step(500);
  queue.Add(result);
  EXPECT_LE(queue.size(), 20);
  int checkpoints = 0, results = 0, validations = 0;
  int64_t number = 0, last_step = -1;
  for (const auto& report : Fill(queue, 1000)) {
    EXPECT_GT(report.number(), number);
    number = report.number();
    checkpoints += report.event().has_checkpoint();
    results += report.event().has_result();
    if (report.event().has_metrics()) {
      validations += report.event().metrics().has_validation_loss();
      EXPECT_GT(report.event().metrics().step(), last_step);
      last_step = report.event().metrics().step();
    }
  }
  EXPECT_EQ(checkpoints, 4);
  EXPECT_EQ(results, 1);
  EXPECT_EQ(validations, 1);
  EXPECT_EQ(Fill(queue, 1)[0].event().metrics().step(), 0);
}

}  // namespace
}  // namespace comera::worker
