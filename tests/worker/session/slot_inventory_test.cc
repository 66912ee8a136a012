// Checks the slots made from GPUs and cores, and CUDA_VISIBLE_DEVICES.

#include "worker/session/slot_inventory.h"

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

TEST(SlotInventoryTest, OneSlotPerTwoCores) {
  for (const auto& [cores, slots] :
       std::vector<std::pair<int, size_t>>{{1, 1}, {2, 1}, {3, 1}, {8, 4}}) {
    ASSERT_OK_AND_ASSIGN(const auto inventory, ListSlots(0, cores));
    EXPECT_EQ(inventory.size(), slots) << cores;
  }
  EXPECT_GE(UsableCores(), 1);
}

TEST(SlotInventoryTest, TakesTheGivenNumber) {
  ASSERT_OK_AND_ASSIGN(const auto inventory, ListSlots(3, 2));
  ASSERT_EQ(inventory.size(), 3);
  EXPECT_EQ(inventory[2].index(), 2);
  EXPECT_EQ(inventory[2].device(), v1::ResourceSpec::CPU);
  EXPECT_THAT(ListSlots(-1, 2), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ListSlots(1025, 2), StatusIs(absl::StatusCode::kInvalidArgument));
}

std::vector<v1::Gpu> ThreeGpus() {
  std::vector<v1::Gpu> gpus(3);
  gpus[0].set_uuid("GPU-aa1");
  gpus[1].set_uuid("GPU-bb2");
  gpus[2].set_uuid("GPU-bb3");
  return gpus;
}

TEST(SlotInventoryTest, OneSlotPerGpuAndCpuSlotsWhereAsked) {
  ASSERT_OK_AND_ASSIGN(auto inventory, ListSlots(0, 8, ThreeGpus()));
  ASSERT_EQ(inventory.size(), 3u);
  EXPECT_EQ(inventory[1].index(), 1);
  EXPECT_EQ(inventory[1].device(), v1::ResourceSpec::GPU);
  EXPECT_EQ(inventory[1].gpu().uuid(), "GPU-bb2");
  ASSERT_OK_AND_ASSIGN(inventory, ListSlots(2, 8, ThreeGpus()));
  ASSERT_EQ(inventory.size(), 5u);
  EXPECT_EQ(inventory[3].device(), v1::ResourceSpec::CPU);
  EXPECT_FALSE(inventory[3].has_gpu());
  EXPECT_EQ(inventory[4].index(), 4);
}

TEST(SlotInventoryTest, ChoosesGpus) {
  const auto uuids = [](const char* wanted, const char* visible) {
    const auto chosen = ChooseGpus(wanted, visible, ThreeGpus());
    EXPECT_OK(chosen);
    std::string text;
    for (const v1::Gpu& gpu : *chosen) text += gpu.uuid().substr(4) + " ";
    return text;
  };
  EXPECT_EQ(uuids("auto", ""), "aa1 bb2 bb3 ");
  EXPECT_EQ(uuids("none", ""), "");
  EXPECT_EQ(uuids("0", ""), "");
  EXPECT_EQ(uuids("2", ""), "aa1 bb2 ");
  EXPECT_EQ(uuids("auto", "2,0"), "bb3 aa1 ");
  EXPECT_EQ(uuids("auto", " GPU-bb , GPU-aa1"), "bb2 aa1 ");
  EXPECT_EQ(uuids("1", "1"), "bb2 ");
  // CUDA ignores entries after one that names no GPU, and so does this.
  EXPECT_EQ(uuids("auto", "0,7,1"), "aa1 ");
  EXPECT_EQ(uuids("auto", "-1"), "");
  for (const char* wanted : {"4", "-1", "some", "", "1.5"}) {
    EXPECT_THAT(ChooseGpus(wanted, "", ThreeGpus()),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << wanted;
  }
  EXPECT_THAT(ChooseGpus("2", "0", ThreeGpus()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SlotInventoryTest, ThreadsAreTheJobsChoiceOrAFairShare) {
  v1::JobSpec spec;
  EXPECT_EQ(ThreadsPerProcess(spec, 8, 2), 4);
  EXPECT_EQ(ThreadsPerProcess(spec, 2, 4), 1);
  spec.mutable_resources()->set_threads_per_process(3);
  EXPECT_EQ(ThreadsPerProcess(spec, 8, 2), 3);
}

}  // namespace
}  // namespace comera::worker
