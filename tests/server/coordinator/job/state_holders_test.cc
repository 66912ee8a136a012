// Tests which workers are remembered as possible holders of a job's states.
#include "server/coordinator/job/state_holders.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(StateHoldersTest, StrangersMayHoldNothing) {
  JobRecord record;
  NoteStateRunner("w1", &record);
  EXPECT_TRUE(NoteStateKeeper("w2", &record));
  EXPECT_FALSE(NoteStateKeeper("w2", &record));
  record.add_last_workers("w3");
  for (const char* worker : {"w1", "w2", "w3"}) {
    EXPECT_TRUE(MayHoldStates(record, worker));
  }
  EXPECT_FALSE(MayHoldStates(record, "w4"));
  EXPECT_FALSE(MayHoldStates(record, ""));
  EXPECT_THAT(StateRunners(record), ElementsAre("w1", "w3"));
  EXPECT_THAT(StateHolders(record), ElementsAre("w1", "w3", "w2"));
}

TEST(StateHoldersTest, TheEarliestAreDroppedUnlessACheckpointLiesThere) {
  JobRecord record;
  record.mutable_job()->add_checkpoints()->add_workers("w0");
  for (int i = 0; i < 2 * kMaxStateHolders; ++i) {
    NoteStateRunner(absl::StrCat("w", i), &record);
    NoteStateKeeper(absl::StrCat("w", i), &record);
    // It runs the job again and again.
    NoteStateRunner("w1", &record);
  }
  EXPECT_THAT(record.state_runners(), SizeIs(kMaxStateHolders));
  EXPECT_THAT(record.state_keepers(), SizeIs(kMaxStateHolders));
  for (const char* worker : {"w0", "w1", "w127"}) {
    EXPECT_TRUE(MayHoldStates(record, worker)) << worker;
  }
  EXPECT_FALSE(MayHoldStates(record, "w2"));
}

TEST(StateHoldersTest, ARecordOfAnEarlierVersionNamesItsWorkersElsewhere) {
  JobRecord record;
  AdoptStateHolders(&record);
  EXPECT_THAT(record.state_runners(), IsEmpty());
  record.mutable_job()->set_attempt(3);
  record.add_ended_attempts()->add_workers("w1");
  record.add_last_workers("w2");
  record.mutable_job()->add_checkpoints()->add_workers("w3");
  AdoptStateHolders(&record);
  EXPECT_THAT(record.state_runners(), ElementsAre("w1", "w2", "w3"));
  // A record of this version stays as it is.
  record.add_last_workers("w4");
  AdoptStateHolders(&record);
  EXPECT_THAT(record.state_runners(), SizeIs(3));
}

}  // namespace
}  // namespace comera::server
