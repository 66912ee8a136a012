// Tests where checkpoints are copied to and fetched from.
#include "server/coordinator/worker/checkpoint_peers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CheckpointPeersTest : public ::testing::Test {
 protected:
  CheckpointPeersTest() {
    for (const char* id : {"w1", "w2", "w3"}) {
      v1::SynchronizeRequest request = parts_.Report(id);
      request.set_peer_address(std::string(id) + ":1");
      parts_.AddWorker(id).ApplyReport(request, parts_.now, absl::Seconds(10));
    }
  }

  // Worker `id` reports that it holds the job's state of this step.
  v1::SynchronizeResponse Hold(const std::string& id, const std::string& job,
                               int64_t step) {
    v1::SynchronizeRequest request = parts_.Report(id);
    request.set_peer_address(id + ":1");
    v1::HeldCheckpoint* held = request.add_checkpoints();
    held->set_job(job);
    held->set_step(step);
    held->set_place(v1::HeldCheckpoint::MEMORY);
    v1::SynchronizeResponse response;
    Operation op(parts_.now, &parts_.effects);
    parts_.peers.ApplyHeld(request, *parts_.workers.Find(id), &response, &op);
    return response;
  }

  v1::MemberAssignment Assign(const JobEntry& entry, bool resume) {
    v1::MemberAssignment assignment;
    assignment.set_resume(resume);
    parts_.peers.AssignPeers(entry, *parts_.workers.Find("w1"), &assignment);
    return assignment;
  }

  CoordinatorParts parts_;
};

TEST_F(CheckpointPeersTest, SourcesAreReachableHoldersOfAResumedJob) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  Hold("w2", "jobs/a", 10);
  Hold("w3", "jobs/other", 10);
  EXPECT_THAT(Assign(entry, false).sources(), IsEmpty());
  ASSERT_THAT(Assign(entry, true).sources(), SizeIs(1));
  EXPECT_EQ(Assign(entry, true).sources(0).worker(), "w2");
  parts_.workers.Find("w2")->MarkLost();
  EXPECT_THAT(Assign(entry, true).sources(), IsEmpty());
}

TEST_F(CheckpointPeersTest, ReplicasAreAsManyOthersAsTheJobWants) {
  JobEntry& entry = parts_.StartJob("a", "w1");
  entry.mutable_job().mutable_spec()->mutable_checkpoint()->set_replicas(5);
  EXPECT_THAT(Assign(entry, false).replicas(), SizeIs(2));
  entry.mutable_job().mutable_spec()->mutable_checkpoint()->set_replicas(1);
  EXPECT_THAT(Assign(entry, false).replicas(), SizeIs(1));
}

TEST_F(CheckpointPeersTest, WorkersNeedNotKeepTheStatesOfEndedJobs) {
  JobEntry& entry = parts_.AddJob("a");
  EXPECT_THAT(Hold("w2", "jobs/a", 10).ended_jobs(), IsEmpty());
  Operation op(parts_.now, &parts_.effects);
  entry.End(v1::FAILED, "", &op);
  EXPECT_THAT(Hold("w2", "jobs/a", 10).ended_jobs(), ElementsAre("jobs/a"));
}

TEST_F(CheckpointPeersTest, TheNewestCheckpointNeedsAHolder) {
  JobEntry& entry = parts_.AddJob("a");
  EXPECT_TRUE(parts_.peers.HasReachableHolder(entry.job()));
  v1::Checkpoint* newest = entry.mutable_job().add_checkpoints();
  newest->add_workers("w2");
  EXPECT_TRUE(parts_.peers.HasReachableHolder(entry.job()));
  parts_.workers.Find("w2")->MarkLost();
  EXPECT_FALSE(parts_.peers.HasReachableHolder(entry.job()));
  newest->set_durable(true);
  EXPECT_TRUE(parts_.peers.HasReachableHolder(entry.job()));
}

TEST_F(CheckpointPeersTest, ChangedPeersAreAnnouncedOnceInAWhile) {
  parts_.StartJob("a", "w1");
  const auto announced = [&](absl::Duration after) {
    Operation op(parts_.now + after, &parts_.effects);
    parts_.peers.Announce(&op);
    return op.changed_workers();
  };
  EXPECT_THAT(announced(absl::ZeroDuration()), IsEmpty());
  parts_.peers.MarkPeersChanged();
  EXPECT_THAT(announced(absl::ZeroDuration()), ElementsAre("w1"));
  parts_.peers.MarkPeersChanged();
  EXPECT_THAT(announced(absl::Seconds(1)), IsEmpty());
  EXPECT_THAT(announced(absl::Seconds(2)), ElementsAre("w1"));
}

}  // namespace
}  // namespace comera::server
