// Rebuilds a plan without its pruned rank entries.
#include "worker/trainer/loop/rank_controller.h"

#include <vector>

#include "common/status_macros.h"
#include "worker/trainer/model/plan/compaction.h"

namespace comera::trainer {
namespace {

std::vector<float> Compacted(const CompactionPlan& compaction,
                             const std::vector<float>& buffer) {
  std::vector<float> result(compaction.new_layout.parameters.size());
  CompactBuffer(compaction, buffer.data(), result.data());
  return result;
}

}  // namespace

absl::StatusOr<bool> RankController::Compact(std::unique_ptr<ModelPlan>* plan) {
  ModelPlan& old_plan = **plan;
  ASSIGN_OR_RETURN(const std::vector<float> parameters,
                   old_plan.Download(old_plan.parameters()));
  const CompactionPlan compaction =
      PlanCompaction(old_plan.config(), parameters.data());
  if (!compaction.changed) return false;
  ASSIGN_OR_RETURN(const std::vector<float> first_moment,
                   old_plan.Download(old_plan.first_moment()));
  ASSIGN_OR_RETURN(const std::vector<float> second_moment,
                   old_plan.Download(old_plan.second_moment()));
  const int64_t batch_size = old_plan.batch_size();
  // The old plan goes first: both need not fit side by side.
  plan->reset();
  ASSIGN_OR_RETURN(*plan, ModelPlan::Create(compaction.config, batch_size,
                                            factory_, backend_));
  ModelPlan& now = **plan;
  RETURN_IF_ERROR(
      now.Upload(Compacted(compaction, parameters), now.parameters()));
  RETURN_IF_ERROR(
      now.Upload(Compacted(compaction, first_moment), now.first_moment()));
  RETURN_IF_ERROR(
      now.Upload(Compacted(compaction, second_moment), now.second_moment()));
  return true;
}

}  // namespace comera::trainer
