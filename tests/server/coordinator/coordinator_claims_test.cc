// Traces of the coordinator's state machine: workers that say that they have
// states of jobs with which they had nothing to do.
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "server/coordinator/coordinator.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kDisk = v1::HeldCheckpoint::DISK;
constexpr auto kMemory = v1::HeldCheckpoint::MEMORY;
constexpr auto kDurable = v1::HeldCheckpoint::DURABLE;
constexpr int64_t kFar = 1'000'000'000;

// The job runs on w1 and has saved a checkpoint of step 2000 there, of which w2
// keeps a copy. "a" is a liar: its name comes first, as that of the source that
// is asked first, and nothing is ever placed there.
class ClaimsTest : public CoordinatorTest {
 protected:
  ClaimsTest() {
    liar_.slots = w2_.slots = 0;
    for (Worker* worker : {&liar_, &w1_, &w2_, &w3_}) {
      worker->host = worker->id;
      worker->peer_address = worker->id + ":1";
    }
    EXPECT_OK(h_.Sync(w2_));
    name_ = RunningJob();
    Save(1000);
    Save(2000);
    Hold(w2_, 1, 2000, kMemory);
    EXPECT_OK(h_.Sync(w2_));
    EXPECT_OK(h_.Sync(liar_));
  }

  void Hold(Worker& worker, int64_t attempt, int64_t step,
            v1::HeldCheckpoint::Place place) {
    v1::HeldCheckpoint held;
    held.set_job(name_);
    held.set_attempt(attempt);
    held.set_step(step);
    held.set_place(place);
    worker.checkpoints.push_back(held);
  }

  // Member 0 on w1 saves a checkpoint.
  void Save(int64_t step) {
    v1::ProgressReport report;
    report.set_job(name_);
    report.set_attempt(1);
    report.set_number(++reports_);
    report.mutable_event()->mutable_checkpoint()->set_step(step);
    w1_.reports = {report};
    Hold(w1_, 1, step, kDisk);
    EXPECT_OK(h_.Sync(w1_));
    w1_.reports.clear();
  }

  void Pass(absl::Duration duration, std::initializer_list<Worker*> present) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(2)) {
      h_.Advance(absl::Seconds(2));
      for (Worker* worker : present) (void)h_.Sync(*worker);
    }
  }

  // The machine of w1 is gone for good.
  void LoseW1() {
    h_.Advance(absl::Seconds(4));
    Effects effects;
    h_.coordinator->ConfirmWorkerExit("w1", "i1", h_.now, &effects);
    h_.Take(std::move(effects));
    h_.Schedule();
  }

  void End(std::initializer_list<Worker*> present) {
    ASSERT_OK(h_.Cancel(name_));
    w1_.members.clear();
    Pass(absl::Seconds(4), present);
    ASSERT_EQ(h_.job(name_).state(), v1::CANCELLED);
  }

  std::vector<int64_t> Expired(Worker& worker) {
    std::vector<int64_t> steps;
    const auto answer = h_.Sync(worker);
    EXPECT_OK(answer);
    if (!answer.ok()) return steps;
    for (const v1::HeldCheckpoint& held : answer->expired()) {
      steps.push_back(held.step());
    }
    return steps;
  }

  // The state that member 0 is told to start from on w3, and by whom it is to
  // be had.
  std::string ToldW3() {
    (void)h_.Sync(w3_);
    const auto answer = h_.Sync(w3_);
    for (const v1::MemberAssignment& member : answer->desired()) {
      if (member.rank() != 0) continue;
      std::string text = absl::StrCat(member.start().step(), " of");
      for (const v1::Peer& source : member.sources()) {
        absl::StrAppend(&text, " ", source.worker());
      }
      return text;
    }
    return "";
  }

  Worker liar_{"a"};
  Worker w3_{"w3"};
  std::string name_;
  int64_t reports_ = 0;
};

TEST_F(ClaimsTest, AStrangersListingExpiresNothing) {
  for (int64_t step : {kFar, kFar + 1, kFar + 2}) {
    Hold(liar_, 1, step, kDurable);
    Hold(liar_, 0, step, kDurable);
  }
  // The real states, which the store had not before, are not there for others.
  Hold(liar_, 0, 2000, kDurable);
  EXPECT_THAT(Expired(liar_), IsEmpty());
  for (int64_t step : {500, 1000, 2000}) Hold(w1_, 1, step, kDurable);
  Hold(w1_, 0, 2000, kDurable);
  // What the job keeps are its own two newest ones, as without the liar.
  EXPECT_THAT(Expired(w1_), ElementsAre(500));
  w1_.checkpoints.erase(w1_.checkpoints.begin() + 2);
  Save(3000);
  EXPECT_THAT(Expired(w1_), IsEmpty());
  Hold(w1_, 1, 3000, kDurable);
  EXPECT_THAT(Expired(w1_), ElementsAre(1000));
}

TEST_F(ClaimsTest, NobodyDeletesForStatesThatOnlyAStrangerHasSeen) {
  for (int64_t step : {500, 1000}) Hold(w1_, 1, step, kDurable);
  Save(3000);
  // Both were announced, and neither has reached the store.
  for (int64_t step : {2000, 3000}) Hold(liar_, 1, step, kDurable);
  EXPECT_THAT(Expired(liar_), IsEmpty());
  Hold(w1_, 1, 400, kDurable);
  EXPECT_THAT(Expired(w1_), IsEmpty());
}

TEST_F(ClaimsTest, AStrangersDiskAndListingEndNoCopies) {
  // w1 has copies for another worker, too.
  Hold(w1_, 1, 900, kMemory);
  ASSERT_OK(h_.Sync(w1_));
  LoseW1();
  End({&w2_, &liar_});
  for (int64_t step : {int64_t{1000}, int64_t{2000}, kFar}) {
    Hold(liar_, 1, step, kDisk);
    Hold(liar_, 1, step, kDurable);
  }
  EXPECT_THAT(h_.Sync(liar_)->ended_jobs(), IsEmpty());
  // The only copy that is left.
  EXPECT_THAT(h_.Sync(w2_)->ended_jobs(), IsEmpty());
  w1_.incarnation = "i2";
  EXPECT_THAT(h_.Sync(w1_)->ended_jobs(), IsEmpty());
  EXPECT_THAT(h_.Sync(w1_)->ended_jobs(), IsEmpty());
  // Now a disk has it on which it was saved.
  EXPECT_THAT(h_.Sync(w2_)->ended_jobs(), ElementsAre(name_));
}

TEST_F(ClaimsTest, AReplicaThatLiesEndsNoCopiesOfOthers) {
  Hold(w1_, 1, 900, kMemory);
  ASSERT_OK(h_.Sync(w1_));
  End({&w1_, &w2_, &liar_});
  for (int64_t step : {int64_t{1000}, int64_t{2000}, kFar}) {
    Hold(w2_, 1, step, kDisk);
    Hold(w2_, 1, step, kDurable);
  }
  ASSERT_OK(h_.Sync(w2_));
  EXPECT_THAT(h_.Sync(w1_)->ended_jobs(), IsEmpty());
}

TEST_F(ClaimsTest, AStrangersStatesAreNoStartAndItIsNoSource) {
  for (int64_t step : {int64_t{2000}, int64_t{2001}, kFar}) {
    for (const auto place : {kDisk, kMemory}) Hold(liar_, 1, step, place);
  }
  ASSERT_OK(h_.Sync(liar_));
  EXPECT_THAT(h_.job(name_).checkpoints(1).workers(), ElementsAre("w1", "w2"));
  LoseW1();
  Pass(absl::Seconds(2), {&w2_, &liar_});
  EXPECT_EQ(ToldW3(), "2000 of w2");
}

TEST_F(ClaimsTest, AStrangersListingIsNoStart) {
  for (int64_t step : {int64_t{2000}, kFar}) Hold(liar_, 1, step, kDurable);
  ASSERT_OK(h_.Sync(liar_));
  EXPECT_FALSE(h_.job(name_).checkpoints(1).durable());
  LoseW1();
  Pass(absl::Seconds(2), {&w2_, &liar_});
  EXPECT_EQ(ToldW3(), "2000 of w2");
}

// What a machine stored last before it was lost, with nobody to announce it.
TEST_F(ClaimsTest, WhatSeveralFindInTheStoreIsAStart) {
  LoseW1();
  Hold(w2_, 1, 2400, kDurable);
  Hold(w3_, 1, 2400, kDurable);
  w3_.slots = 0;
  Pass(absl::Seconds(2), {&w2_, &w3_, &liar_});
  w3_.slots = 2;
  EXPECT_EQ(ToldW3(), "2400 of");
}

TEST_F(ClaimsTest, WhatItsOwnWorkerStoredIsAStart) {
  Hold(w1_, 1, 2400, kDurable);
  ASSERT_OK(h_.Sync(w1_));
  LoseW1();
  Pass(absl::Seconds(2), {&w2_, &liar_});
  EXPECT_EQ(ToldW3(), "2400 of");
}

TEST_F(ClaimsTest, WhoMayHoldStatesIsKnownAfterARestart) {
  LoseW1();
  h_.Restart();
  Hold(w2_, 1, 2030, kMemory);
  Hold(liar_, 1, 2040, kMemory);
  Pass(absl::Seconds(60), {&w2_, &liar_});
  EXPECT_EQ(ToldW3(), "2030 of w2");
}

TEST_F(ClaimsTest, ARecordOfAnEarlierVersionGoesByTheWorkersThatItNames) {
  LoseW1();
  h_.stored.at(name_).clear_state_runners();
  h_.stored.at(name_).clear_state_keepers();
  h_.Restart();
  for (Worker* worker : {&w2_, &liar_}) Hold(*worker, 1, 2030, kMemory);
  Pass(absl::Seconds(60), {&w2_, &liar_});
  EXPECT_EQ(ToldW3(), "2030 of w2");
}

TEST_F(ClaimsTest, WhatAStrangerHasOfAJobThatIsOverMayGo) {
  End({&w1_, &w2_, &liar_});
  Hold(liar_, 1, 2000, kDisk);
  EXPECT_THAT(h_.Sync(liar_)->ended_jobs(), IsEmpty());
  h_.Advance(absl::Hours(73));
  EXPECT_THAT(h_.Sync(liar_)->ended_jobs(), ElementsAre(name_));
}

TEST_F(ClaimsTest, WhoFetchedAStateForAnotherJobHoldsIt) {
  v1::JobSpec spec = TestSpec(2);
  spec.mutable_start_from()->set_checkpoint(name_ + "/checkpoints/2000");
  ASSERT_OK(h_.Sync(w3_));
  const std::string next = h_.Submit(spec);
  const auto told = h_.Sync(w3_);
  ASSERT_THAT(told->desired(), SizeIs(2));
  ASSERT_EQ(told->desired(0).start_job(), name_);
  Hold(w3_, 1, 2000, kDisk);
  ASSERT_OK(h_.Sync(w3_));
  EXPECT_THAT(h_.job(name_).checkpoints(1).workers(),
              ElementsAre("w1", "w2", "w3"));
}

}  // namespace
}  // namespace comera::server
