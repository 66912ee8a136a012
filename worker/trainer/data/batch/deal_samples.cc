// Deals the samples of a batch to members by their lengths.
#include "worker/trainer/data/batch/deal_samples.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace comera::trainer {

std::vector<int32_t> DealSamples(absl::Span<const int32_t> lengths, int rank,
                                 int world_size) {
  const size_t share = lengths.size() / world_size;
  std::vector<int32_t> own(share);
  const bool equal =
      std::adjacent_find(lengths.begin(), lengths.end(),
                         std::not_equal_to<int32_t>()) == lengths.end();
  if (equal) {
    std::iota(own.begin(), own.end(), static_cast<int32_t>(share * rank));
    return own;
  }
  own.clear();
  std::vector<int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return lengths[a] > lengths[b];
  });
  // Tokens and rank of each member that has room, the fewest tokens first.
  using Load = std::pair<int64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<Load>> loads;
  for (int member = 0; member < world_size; ++member) loads.push({0, member});
  std::vector<size_t> counts(world_size, 0);
  for (const int32_t sample : order) {
    const auto [tokens, member] = loads.top();
    loads.pop();
    if (member == rank) own.push_back(sample);
    if (++counts[member] < share) {
      loads.push({tokens + lengths[sample], member});
    }
  }
  std::sort(own.begin(), own.end());
  return own;
}

}  // namespace comera::trainer
