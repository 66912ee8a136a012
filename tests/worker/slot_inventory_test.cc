#include "worker/slot_inventory.h"

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

TEST(SlotInventoryTest, OneSlotPerTwoCores) {
  for (const auto& [cores, slots] :
       std::vector<std::pair<int, size_t>>{{1, 1}, {2, 1}, {3, 1}, {8, 4}}) {
    ASSERT_OK_AND_ASSIGN(const auto inventory, TakeInventory(0, cores));
    EXPECT_EQ(inventory.size(), slots) << cores;
  }
  EXPECT_GE(UsableCores(), 1);
}

TEST(SlotInventoryTest, TakesTheGivenNumber) {
  ASSERT_OK_AND_ASSIGN(const auto inventory, TakeInventory(3, 2));
  ASSERT_EQ(inventory.size(), 3);
  EXPECT_EQ(inventory[2].index(), 2);
  EXPECT_EQ(inventory[2].device(), v1::ResourceSpec::CPU);
  EXPECT_THAT(TakeInventory(-1, 2),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TakeInventory(1025, 2),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SlotInventoryTest, ThreadsAreTheJobsChoiceOrAFairShare) {
  v1::JobSpec spec;
  EXPECT_EQ(ThreadsPerRank(spec, 8, 2), 4);
  EXPECT_EQ(ThreadsPerRank(spec, 2, 4), 1);
  spec.mutable_resources()->set_threads_per_rank(3);
  EXPECT_EQ(ThreadsPerRank(spec, 8, 2), 3);
}

}  // namespace
}  // namespace comera::worker
