// Divides the candidates of a search into groups by size.
#include "server/sweep/search_groups.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "proto/model_size.h"

namespace comera::server {
namespace {

constexpr size_t kMostGroups = 3;
constexpr size_t kLeastGroup = 2;

// Smaller is smaller.
auto SizeKey(const v1::JobSpec& spec) {
  const v1::CompressionSpec& compression = spec.compression();
  if (compression.method() != v1::CompressionSpec::COMERA) {
    return std::make_tuple(1, LargestModelParameters(spec));
  }
  double rank = 1;
  for (int64_t each : compression.attention().ranks()) {
    rank = std::max(rank, static_cast<double>(each));
  }
  for (int64_t each : compression.table().ranks()) {
    rank = std::max(rank, static_cast<double>(each));
  }
  const auto width =
      static_cast<double>(std::max<int64_t>(1, spec.model().hidden()));
  return std::make_tuple(0, width * rank * rank);
}

}  // namespace

SearchGroups GroupBySize(const SweepPlan& plan) {
  using Key = std::tuple<int, double>;
  std::vector<std::pair<Key, SearchChild>> all;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    all.push_back({SizeKey(plan.StageSpec(static_cast<int>(i))),
                   {true, static_cast<int>(i)}});
  }
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    if (plan.runs[i].stage >= 0) continue;
    all.push_back({SizeKey(plan.RunSpec(static_cast<int>(i))),
                   {false, static_cast<int>(i)}});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  SearchGroups result;
  const size_t count =
      std::clamp<size_t>(all.size() / kLeastGroup, 1, kMostGroups);
  result.groups.resize(count);
  // Where they are not even, the first are the larger groups.
  for (size_t i = 0; i < all.size(); ++i) {
    result.groups[i * count / all.size()].push_back(all[i].second);
  }
  return result;
}

}  // namespace comera::server
