// Tests what a worker is told to run, to stop and to kill.
#include "server/coordinator/synchronize/assignment_writer.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/proto_time.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class AssignmentWriterTest : public ::testing::Test {
 protected:
  AssignmentWriterTest() {
    parts_.AddWorker("w1");
    parts_.AddWorker("w2");
  }

  v1::SynchronizeResponse Write(const std::string& worker) {
    v1::SynchronizeResponse response;
    Operation op(parts_.now, &parts_.effects);
    parts_.assignments.Write(parts_.workers.Find(worker), &response, &op);
    return response;
  }

  CoordinatorParts parts_;
};

TEST_F(AssignmentWriterTest, AMemberKnowsItsPlaceInTheGangAndOnTheWorker) {
  JobEntry& entry = parts_.AddJob("a", 3);
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Place(entry, {{"w2", 0}, {"w1", 0}, {"w1", 1}}, &op);
  const v1::SynchronizeResponse response = Write("w1");
  ASSERT_THAT(response.desired(), SizeIs(2));
  const v1::MemberAssignment& last = response.desired(1);
  EXPECT_EQ(last.rank(), 2);
  EXPECT_EQ(last.world_size(), 3);
  EXPECT_EQ(last.local_rank(), 1);
  EXPECT_EQ(last.local_world_size(), 2);
  EXPECT_EQ(last.slot(), 1);
  EXPECT_FALSE(last.resume());
}

TEST_F(AssignmentWriterTest, GangsShareTheRoomForTheirEntries) {
  const std::string large(size_t{256} << 10, 'x');
  for (int job = 0; job < 4; ++job) {
    JobEntry& entry = parts_.AddJob("a" + std::to_string(job), 2);
    Operation op(parts_.now, &parts_.effects);
    parts_.lifecycle.Place(entry, {{"w1", 0}, {"w2", 0}}, &op);
    for (int i = 0; i < (job == 3 ? 1 : 200); ++i) {
      EXPECT_TRUE(
          entry.attempt()
              .rendezvous()
              .Put("w2", std::to_string(i), large, RendezvousMirror::kMostBytes)
              .value());
    }
  }
  const v1::SynchronizeResponse response = Write("w1");
  EXPECT_LE(response.ByteSizeLong(), RendezvousMirror::kMostBytes + (1 << 20));
  std::map<std::string, int> entries;
  for (const v1::RendezvousEntry& entry : response.rendezvous()) {
    ++entries[entry.job()];
  }
  EXPECT_GT(entries["jobs/a0"], 50);
  EXPECT_GT(entries["jobs/a2"], 50);
  EXPECT_EQ(entries["jobs/a3"], 1);
}

TEST_F(AssignmentWriterTest, ARequestedStopComesWithMoreTime) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.RequestStop(entry, AttemptRecord::PREEMPTED, "room", &op);
  const v1::SynchronizeResponse response = Write("w1");
  EXPECT_THAT(response.desired(), IsEmpty());
  ASSERT_THAT(response.stopping(), SizeIs(2));
  EXPECT_EQ(FromProtoDuration(response.stopping(0).grace()),
            parts_.options.scheduler.preemption_grace);
}

TEST_F(AssignmentWriterTest, AnotherLifeOfTheWorkerRunsNothingOfTheLast) {
  parts_.StartJob("a", "w1");
  parts_.workers.Find("w1")->ReplaceIncarnation("i2");
  EXPECT_THAT(Write("w1").desired(), IsEmpty());
}

TEST_F(AssignmentWriterTest, MembersSeeWhatOtherWorkersWrote) {
  JobEntry& entry = parts_.AddJob("a", 2);
  Operation op(parts_.now, &parts_.effects);
  parts_.lifecycle.Place(entry, {{"w1", 0}, {"w2", 0}}, &op);
  EXPECT_TRUE(
      entry.attempt().rendezvous().Put("w1", "key", "value", 1000).value());
  EXPECT_THAT(Write("w1").rendezvous(), IsEmpty());
  EXPECT_THAT(Write("w2").rendezvous(), SizeIs(1));
}

}  // namespace
}  // namespace comera::server
