// Removes the pruned rank entries of a model that is to be exported.
#include "worker/trainer/loop/compacted_model.h"

#include "worker/trainer/model/plan/compaction.h"

namespace comera::trainer {

CompactedModel CompactModel(const ModelConfig& config,
                            const std::vector<float>& parameters) {
  const CompactionPlan plan = PlanCompaction(config, parameters.data());
  CompactedModel compacted;
  compacted.config = plan.config;
  compacted.parameters.resize(plan.new_layout.parameters.size());
  CompactBuffer(plan, parameters.data(), compacted.parameters.data());
  return compacted;
}

}  // namespace comera::trainer
