// Workers fetch training states only of their own jobs: checkpoints from the
// coordinator, and states from one another by the coordinator's grants.
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "server/coordinator/coordinator.h"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "worker/checkpoint/peer_keys.h"

namespace comera::server {
namespace {

using ::comera::worker::PeerKeys;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

// How long the coordinator seals grants for a worker with one key.
constexpr absl::Duration kKeyPeriod = absl::Minutes(10);

// Three workers on machines of their own.
class GrantTest : public CoordinatorTest {
 protected:
  GrantTest() {
    for (Worker* worker : {&w1_, &w2_, &w3_}) {
      worker->host = "host-" + worker->id;
      worker->peer_address = worker->host + ":1";
    }
  }

  bool Needs(const Worker& worker, const std::string& checkpoint) const {
    return h_.coordinator->NeedsCheckpoint(worker.id, checkpoint);
  }

  // Member 0 on the worker saves a checkpoint, whose name is returned.
  std::string Save(Worker& worker, const std::string& job, int64_t step) {
    v1::ProgressReport report;
    report.set_job(job);
    report.set_attempt(1);
    report.set_number(2);
    report.mutable_event()->mutable_checkpoint()->set_step(step);
    worker.reports = {Metrics(job, 1, 1, step), report};
    v1::HeldCheckpoint held;
    held.set_job(job);
    held.set_attempt(1);
    held.set_step(step);
    held.set_place(v1::HeldCheckpoint::DISK);
    worker.checkpoints.push_back(held);
    EXPECT_OK(h_.Sync(worker));
    worker.reports.clear();
    return absl::StrCat(job, "/checkpoints/", step);
  }

  // The worker's members end, and it reports so.
  void End(Worker& worker) {
    for (v1::MemberStatus& member : worker.members) member.set_phase(kExited);
    ASSERT_OK(h_.Sync(worker));
    worker.members.clear();
    ASSERT_OK(h_.Sync(worker));
  }

  // What the coordinator answers, which the worker's keys learn as well.
  v1::SynchronizeResponse Learn(Worker& worker, PeerKeys* keys) {
    auto answer = h_.Sync(worker);
    EXPECT_OK(answer);
    if (!answer.ok()) return {};
    keys->Learn(*answer);
    return *answer;
  }

  // The grant by which the answer lets its worker ask `peer`; empty: none.
  static std::string GrantAt(const v1::SynchronizeResponse& answer,
                             const Worker& peer) {
    for (const v1::MemberAssignment& member : answer.desired()) {
      for (const auto& peers : {member.sources(), member.replicas()}) {
        for (const v1::Peer& one : peers) {
          if (one.worker() == peer.id) return one.grant();
        }
      }
    }
    return "";
  }

  void SyncAll() {
    for (Worker* worker : {&w1_, &w2_, &w3_}) ASSERT_OK(h_.Sync(*worker));
  }

  // Time passes in which all workers report.
  void Pass(absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(5)) {
      h_.Advance(absl::Seconds(5));
      SyncAll();
    }
  }

  Worker w3_{"w3"};
};

TEST_F(GrantTest, AWorkerNeedsTheCheckpointsOfTheJobsThatItRuns) {
  const std::string job = RunningJob();
  ASSERT_OK(h_.Sync(w2_));
  const std::string checkpoint = Save(w1_, job, 2000);
  EXPECT_TRUE(Needs(w1_, checkpoint));
  EXPECT_FALSE(Needs(w2_, checkpoint));
  EXPECT_FALSE(Needs(w3_, checkpoint)) << "nobody knows that worker";
  for (const char* other : {"jobs/zzzzzzzzzzzz/checkpoints/2000", "jobs/a",
                            "2000", "", "jobs//checkpoints/2000"}) {
    EXPECT_FALSE(Needs(w1_, other)) << other;
  }
  EXPECT_FALSE(Needs(w1_, job + "/models/final"));
  // Once its members have ended it has no more to do with them.
  ASSERT_OK(h_.Cancel(job));
  End(w1_);
  ASSERT_EQ(h_.job(job).state(), v1::CANCELLED);
  EXPECT_FALSE(Needs(w1_, checkpoint));
}

TEST_F(GrantTest, AWorkerNeedsTheCheckpointThatItsJobStartsFrom) {
  const std::string source = RunningJob();
  ASSERT_OK(h_.Sync(w2_));
  const std::string checkpoint = Save(w1_, source, 2000);
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_start_from()->set_checkpoint(checkpoint);
  h_.paused = true;
  const std::string job = h_.Submit(spec);
  // It waits, so that no worker has it yet.
  ASSERT_EQ(h_.job(job).state(), v1::QUEUED);
  EXPECT_FALSE(Needs(w2_, checkpoint));
  h_.paused = false;
  h_.Schedule();
  // Placed: the worker may begin before it has said that it does.
  ASSERT_EQ(h_.job(job).state(), v1::STARTING);
  EXPECT_TRUE(Needs(w2_, checkpoint));
  EXPECT_TRUE(Needs(w2_, job + "/checkpoints/1"));
  // It needs that state of the other job alone.
  EXPECT_FALSE(Needs(w2_, source + "/checkpoints/1999"));
  EXPECT_FALSE(Needs(w1_, job + "/checkpoints/1"));
}

TEST_F(GrantTest, OnlyTheWorkerOfMember0GetsGrants) {
  w1_.slots = w2_.slots = 1;
  w3_.slots = 0;
  SyncAll();
  const std::string job = h_.Submit(2);
  PeerKeys keys[3];
  v1::SynchronizeResponse answers[] = {
      Learn(w1_, &keys[0]), Learn(w2_, &keys[1]), Learn(w3_, &keys[2])};
  ASSERT_THAT(answers[0].desired(), SizeIs(1));
  ASSERT_THAT(answers[1].desired(), SizeIs(1));
  const int first = answers[0].desired(0).rank() == 0 ? 0 : 1;
  const v1::MemberAssignment& member0 = answers[first].desired(0);
  const v1::MemberAssignment& member1 = answers[1 - first].desired(0);
  ASSERT_EQ(member0.rank(), 0);
  ASSERT_THAT(member0.replicas(), SizeIs(1));
  // The other one knows of no peer, so it has no grant either.
  EXPECT_THAT(member1.replicas(), IsEmpty());
  EXPECT_THAT(member1.sources(), IsEmpty());
  EXPECT_THAT(answers[2].desired(), IsEmpty());
  // The grant is good at the worker that it names, for that job alone.
  const v1::Peer& peer = member0.replicas(0);
  int good = 0;
  for (int i = 0; i < 3; ++i) {
    const bool named = absl::StrCat("w", i + 1) == peer.worker();
    const auto judged = keys[i].Judge(peer.grant(), job);
    EXPECT_EQ(judged.ok(), named) << judged.status();
    EXPECT_THAT(keys[i].Judge(peer.grant(), "jobs/zzzzzzzzzzzz"),
                StatusIs(absl::StatusCode::kUnauthenticated));
    if (!judged.ok()) continue;
    ++good;
    EXPECT_EQ(*judged, member0.attempt());
  }
  EXPECT_EQ(good, 1);
}

TEST_F(GrantTest, OnlyMember0OfAResumedJobMayReadItsState) {
  w1_.slots = w2_.slots = 1;
  w3_.slots = 0;
  SyncAll();
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_checkpoint()->set_replicas(2);
  const std::string job = h_.Submit(spec);
  h_.Follow(w1_, kRunning);
  h_.Follow(w2_, kRunning);
  ASSERT_EQ(h_.job(job).state(), v1::RUNNING);
  // A copy lies on the third machine, and the gang begins again.
  Worker& saver = w1_.members[0].rank() == 0 ? w1_ : w2_;
  Save(saver, job, 2000);
  saver.checkpoints[0].set_place(v1::HeldCheckpoint::MEMORY);
  w3_.checkpoints.swap(saver.checkpoints);
  ASSERT_OK(h_.Sync(w3_));
  for (Worker* worker : {&w1_, &w2_}) {
    worker->members = {
        Failed(job, 1, worker->members[0].rank(), v1::RANK_LOST, h_.now)};
    ASSERT_OK(h_.Sync(*worker));
  }
  for (Worker* worker : {&w1_, &w2_}) {
    worker->members.clear();
    ASSERT_OK(h_.Sync(*worker));
  }
  Pass(absl::Seconds(5));
  PeerKeys own, asked;
  Learn(w3_, &asked);
  int readers = 0;
  for (Worker* worker : {&w1_, &w2_}) {
    const v1::SynchronizeResponse answer = Learn(*worker, &own);
    ASSERT_THAT(answer.desired(), SizeIs(1));
    const v1::MemberAssignment& member = answer.desired(0);
    ASSERT_GT(member.attempt(), 1);
    if (member.rank() != 0) {
      EXPECT_EQ(GrantAt(answer, w3_), "");
      continue;
    }
    ++readers;
    ASSERT_THAT(member.sources(), SizeIs(1));
    EXPECT_EQ(member.sources(0).worker(), "w3");
    const auto judged = asked.Judge(member.sources(0).grant(), job);
    ASSERT_OK(judged);
    EXPECT_EQ(*judged, member.attempt());
  }
  EXPECT_EQ(readers, 1);
}

TEST_F(GrantTest, TheKeyChangesAndAGrantOutlivesOneChange) {
  w2_.slots = w3_.slots = 0;
  SyncAll();
  const std::string job = RunningJob();
  PeerKeys own, keys;
  const v1::SynchronizeResponse told = Learn(w1_, &own);
  Worker& peer = GrantAt(told, w2_).empty() ? w3_ : w2_;
  const std::string first = Learn(peer, &keys).grant_key();
  const std::string oldest = GrantAt(told, peer);
  EXPECT_OK(keys.Judge(oldest, job));
  // The key stays for some minutes.
  Pass(absl::Seconds(5));
  EXPECT_EQ(Learn(peer, &keys).grant_key(), first);

  Pass(kKeyPeriod);
  const std::string second = Learn(peer, &keys).grant_key();
  EXPECT_NE(second, first);
  const std::string newer = GrantAt(Learn(w1_, &own), peer);
  EXPECT_NE(newer, oldest);
  // A copy that is under way goes on with the grant that it has.
  EXPECT_OK(keys.Judge(oldest, job));
  EXPECT_OK(keys.Judge(newer, job));

  Pass(kKeyPeriod);
  const std::string third = Learn(peer, &keys).grant_key();
  EXPECT_NE(third, second);
  EXPECT_NE(third, first);
  EXPECT_THAT(keys.Judge(oldest, job),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_OK(keys.Judge(newer, job));
  EXPECT_OK(keys.Judge(GrantAt(Learn(w1_, &own), peer), job));
}

TEST(PeerKeysTest, AJobThatStartsFromAnotherAsksForThatJobsStates) {
  v1::SynchronizeResponse answer;
  v1::MemberAssignment& member = *answer.add_desired();
  member.set_job("jobs/second");
  member.set_start_job("jobs/first");
  v1::Peer& source = *member.add_sources();
  source.set_address("h:1");
  source.set_grant("for the first");
  v1::Peer& replica = *member.add_replicas();
  replica.set_address("h:1");
  replica.set_grant("for the second");
  PeerKeys keys;
  keys.Learn(answer);
  EXPECT_EQ(keys.GrantFor("h:1", "jobs/first"), "for the first");
  EXPECT_EQ(keys.GrantFor("h:1", "jobs/second"), "for the second");
}

TEST_F(GrantTest, EachWorkerHasAKeyOfItsOwn) {
  PeerKeys keys;
  const std::string one = Learn(w1_, &keys).grant_key();
  EXPECT_EQ(Learn(w1_, &keys).grant_key(), one);
  EXPECT_NE(Learn(w2_, &keys).grant_key(), one);
  // A key of 256 bits, in text.
  EXPECT_THAT(one.size(), AllOf(Ge(43), Le(44)));
}

}  // namespace
}  // namespace comera::server
