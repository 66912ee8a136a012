#include "worker/slot_inventory.h"

#include <sched.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace comera::worker {
namespace {

constexpr int kMaxSlots = 1024;

}  // namespace

int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

absl::StatusOr<std::vector<v1::Slot>> TakeInventory(int count, int cores) {
  if (count < 0 || count > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots: ", count, "; 0 to ", kMaxSlots, " are possible"));
  }
  if (count == 0) count = std::max(1, std::min(cores / 2, kMaxSlots));
  std::vector<v1::Slot> slots(count);
  for (int i = 0; i < count; ++i) {
    slots[i].set_index(i);
    slots[i].set_device(v1::ResourceSpec::CPU);
  }
  return slots;
}

int ThreadsPerRank(const v1::JobSpec& spec, int cores, int slots) {
  const int asked = spec.resources().threads_per_rank();
  return asked > 0 ? asked : std::max(1, cores / std::max(1, slots));
}

}  // namespace comera::worker
