// Counts cores and turns GPUs and cores into slots.

#include "worker/session/slot_inventory.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace comera::worker {
namespace {

constexpr int kMaxSlots = 1024;

// Reads the list as CUDA does: it ends at the first entry that names no GPU.
std::vector<v1::Gpu> Visible(std::string_view list,
                             const std::vector<v1::Gpu>& found) {
  if (list.empty()) return found;
  std::vector<v1::Gpu> gpus;
  for (absl::string_view entry :
       absl::StrSplit(absl::string_view(list.data(), list.size()), ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    int place = -1;
    const auto named =
        absl::SimpleAtoi(entry, &place)
            ? (place >= 0 && place < static_cast<int>(found.size())
                   ? found.begin() + place
                   : found.end())
            : std::find_if(found.begin(), found.end(), [&](const v1::Gpu& gpu) {
                return !entry.empty() && absl::StartsWith(gpu.uuid(), entry);
              });
    if (named == found.end()) break;
    gpus.push_back(*named);
  }
  return gpus;
}

}  // namespace

int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

absl::StatusOr<std::vector<v1::Gpu>> ChooseGpus(
    std::string_view wanted, std::string_view visible,
    const std::vector<v1::Gpu>& found) {
  if (wanted == "none") return std::vector<v1::Gpu>();
  std::vector<v1::Gpu> gpus = Visible(visible, found);
  if (wanted == "auto") return gpus;
  int count = 0;
  if (!absl::SimpleAtoi(absl::string_view(wanted.data(), wanted.size()),
                        &count) ||
      count < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gpus: \"", std::string(wanted), "\" is not auto, none or a number"));
  }
  if (count > static_cast<int>(gpus.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gpus: ", count, " are wanted, ", gpus.size(), " are there"));
  }
  gpus.resize(count);
  return gpus;
}

absl::StatusOr<std::vector<v1::Slot>> ListSlots(
    int count, int cores, const std::vector<v1::Gpu>& gpus) {
  if (count < 0 || count > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots: ", count, "; 0 to ", kMaxSlots, " are possible"));
  }
  if (count == 0 && gpus.empty()) {
    count = std::max(1, std::min(cores / 2, kMaxSlots));
  }
  std::vector<v1::Slot> slots(gpus.size() + count);
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i].set_index(static_cast<int32_t>(i));
    slots[i].set_device(v1::ResourceSpec::CPU);
    if (i >= gpus.size()) continue;
    slots[i].set_device(v1::ResourceSpec::GPU);
    *slots[i].mutable_gpu() = gpus[i];
  }
  return slots;
}

int ThreadsPerProcess(const v1::JobSpec& spec, int cores, int slots) {
  const int asked = spec.resources().threads_per_process();
  return asked > 0 ? asked : std::max(1, cores / std::max(1, slots));
}

}  // namespace comera::worker
