// Tests who is told of a failure.
#include "server/coordinator/lifecycle/failure_recorder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

TEST(FailureRecorderTest, AttemptClientsAndWorkerAreTold) {
  CoordinatorParts parts;
  const WorkerState& worker = parts.AddWorker("w1");
  JobEntry& entry = parts.StartJob("a", "w1");
  parts.effects = Effects();
  Operation op(parts.now, &parts.effects);
  parts.failures.Record(entry, v1::RANK_LOST, 1, "died", &op);
  EXPECT_TRUE(entry.attempt().HasFailures());
  ASSERT_THAT(parts.effects.events, SizeIs(1));
  EXPECT_EQ(parts.effects.events[0].incident().message(), "died");
  EXPECT_EQ(worker.CountFailures(parts.now, absl::Hours(1)), 1);
  parts.failures.Record(entry, v1::USER, FailureRecorder::kWholeGang, "limit",
                        &op);
  EXPECT_EQ(worker.CountFailures(parts.now, absl::Hours(1)), 1);
}

TEST(FailureRecorderTest, ClientsOfACancelledJobAreNotTold) {
  CoordinatorParts parts;
  parts.AddWorker("w1");
  JobEntry& entry = parts.StartJob("a", "w1");
  Operation op(parts.now, &parts.effects);
  entry.SetState(v1::CANCELLING, "", &op);
  parts.effects = Effects();
  parts.failures.Record(entry, v1::RANK_LOST, 1, "died", &op);
  EXPECT_TRUE(entry.attempt().HasFailures());
  EXPECT_THAT(parts.effects.events, SizeIs(0));
}

}  // namespace
}  // namespace comera::server
