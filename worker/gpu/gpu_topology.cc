#include "worker/gpu/gpu_topology.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::worker {

std::string DescribeTopology(const std::vector<std::string>& ways) {
  std::vector<std::pair<std::string, std::string>> groups;  // way, GPUs
  for (size_t gpu = 0; gpu < ways.size(); ++gpu) {
    if (ways[gpu].empty()) continue;
    const auto found = std::find_if(
        groups.begin(), groups.end(),
        [&](const auto& group) { return group.first == ways[gpu]; });
    if (found == groups.end()) {
      groups.emplace_back(ways[gpu], absl::StrCat(gpu));
    } else {
      absl::StrAppend(&found->second, ", ", gpu);
    }
  }
  std::string text;
  for (const auto& [way, gpus] : groups) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", way, " to ", gpus);
  }
  return text;
}

}  // namespace comera::worker
