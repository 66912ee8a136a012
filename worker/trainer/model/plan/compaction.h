// Removes pruned rank entries for good: smaller cores, smaller moments, same
// function.
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_COMPACTION_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_COMPACTION_H_

#include <cstdint>
#include <vector>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {

// What stays of each bond, and the model that results.
struct CompactionPlan {
  ModelConfig config;  // with the new ranks
  ModelLayout old_layout;
  ModelLayout new_layout;
  // alive[l][b]: ascending indices of the entries of bond b of tensorised
  // layer l that stay. A layer with a bond that has none loses all of them.
  std::vector<std::vector<std::vector<int64_t>>> alive;
  // False: every entry stays.
  bool changed = false;
};

// An entry stays if it is above config.rank_threshold. `parameters` is host
// memory laid out by MakeModelLayout(config). Every member that holds the same
// parameters gets the same plan.
CompactionPlan PlanCompaction(const ModelConfig& config,
                              const float* parameters);

// Copies the surviving entries of a host buffer in the old layout to one in
// the new: parameters, first and second moments alike.
void CompactBuffer(const CompactionPlan& plan, const float* old_buffer,
                   float* new_buffer);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_COMPACTION_H_
