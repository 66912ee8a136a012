// Groups GPUs by the kind of their link and words the result.

#include "worker/gpu/gpu_topology.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::worker {

std::string DescribeTopology(const std::vector<std::string>& ways) {
  // Pairs of a kind of link and the GPUs that it reaches.
  std::vector<std::pair<std::string, std::string>> groups;
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
