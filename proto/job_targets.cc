// Computes the targets and the step budget of an objective.

#include "proto/job_targets.h"

#include "proto/target_quality.h"

namespace comera {

std::vector<v1::Target> TargetsOf(const v1::LateStage& late) {
  if (late.targets_size() > 0) {
    return {late.targets().begin(), late.targets().end()};
  }
  v1::Target target;
  SetQuality(QualityOf(late), &target);
  switch (late.target_size_case()) {
    case v1::LateStage::kTargetBytes:
      target.set_target_bytes(late.target_bytes());
      break;
    case v1::LateStage::kTargetParameters:
      target.set_target_parameters(late.target_parameters());
      break;
    case v1::LateStage::kTargetRatio:
      target.set_target_ratio(late.target_ratio());
      break;
    case v1::LateStage::TARGET_SIZE_NOT_SET:
      break;
  }
  return {target};
}

int64_t PlannedSteps(const v1::ObjectiveSpec& objective) {
  int64_t steps = objective.early().steps();
  if (objective.has_late() && !objective.early().only()) {
    steps += objective.late().max_steps() *
             static_cast<int64_t>(TargetsOf(objective.late()).size());
  }
  return steps;
}

}  // namespace comera
