// Copies parameters and moments without their pruned rank entries.
#include "worker/trainer/model/plan/compaction.h"

#include <algorithm>

#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

using Indices = std::vector<int64_t>;

Indices AliveEntries(const float* d, int64_t size, float threshold) {
  Indices alive;
  for (int64_t i = 0; i < size; ++i) {
    if (d[i] > threshold) alive.push_back(i);
  }
  return alive;
}

// (left, mode, right) restricted to the given left and right entries.
void CopyCore(const float* from, int64_t mode, int64_t old_right,
              const Indices& left, const Indices& right, float* to) {
  for (int64_t l : left) {
    for (int64_t m = 0; m < mode; ++m) {
      const float* row = from + (l * mode + m) * old_right;
      for (int64_t r : right) *to++ = row[r];
    }
  }
}

}  // namespace

CompactionPlan PlanCompaction(const ModelConfig& config,
                              const float* parameters) {
  CompactionPlan plan;
  plan.config = config;
  plan.old_layout = MakeModelLayout(config);
  const ParameterLayout& layout = plan.old_layout.parameters;
  size_t next = 0;
  for (const FactorisableLayer& entry : FactorisableLayers(config)) {
    Factorisation& f = plan.config.layers_by_name.at(entry.key);
    if (f.dense()) continue;
    const TensorisedLayer& layer = plan.old_layout.layers[next++];
    std::vector<Indices> alive;
    bool pruned = false;
    for (int bond : layer.bonds) {
      alive.push_back(AliveEntries(parameters + layout[bond].offset,
                                   layout[bond].size, config.rank_threshold));
      pruned |= alive.back().empty();
    }
    for (size_t b = 0; b < alive.size(); ++b) {
      if (pruned) alive[b].clear();
      const int64_t rank = static_cast<int64_t>(alive[b].size());
      plan.changed |= rank != f.ranks[b];
      f.ranks[b] = rank;
    }
    plan.alive.push_back(std::move(alive));
  }
  plan.new_layout = MakeModelLayout(plan.config);
  return plan;
}

void CompactBuffer(const CompactionPlan& plan, const float* old_buffer,
                   float* new_buffer) {
  const ParameterLayout& old_layout = plan.old_layout.parameters;
  const ParameterLayout& new_layout = plan.new_layout.parameters;
  // Compaction changes shapes, never the number or order of parameters.
  for (size_t p = 0; p < old_layout.parameters().size(); ++p) {
    const Parameter& from = old_layout[static_cast<int>(p)];
    if (from.kind == ParameterKind::kCore ||
        from.kind == ParameterKind::kRank) {
      continue;
    }
    std::copy_n(old_buffer + from.offset, from.size,
                new_buffer + new_layout[static_cast<int>(p)].offset);
  }
  const Indices edge = {0};
  for (size_t l = 0; l < plan.alive.size(); ++l) {
    const TensorisedLayer& layer = plan.old_layout.layers[l];
    const std::vector<Indices>& alive = plan.alive[l];
    const size_t order = layer.cores.size();
    for (size_t i = 0; i < order; ++i) {
      const int core = layer.cores[i];
      CopyCore(old_buffer + old_layout[core].offset, layer.modes[i],
               layer.ranks[i + 1], i == 0 ? edge : alive[i - 1],
               i + 1 == order ? edge : alive[i],
               new_buffer + new_layout[core].offset);
    }
    for (size_t b = 0; b + 1 < order; ++b) {
      const int bond = layer.bonds[b];
      const float* from = old_buffer + old_layout[bond].offset;
      float* to = new_buffer + new_layout[bond].offset;
      for (int64_t i : alive[b]) *to++ = from[i];
    }
  }
}

}  // namespace comera::trainer
