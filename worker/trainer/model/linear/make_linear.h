#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_MAKE_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_MAKE_LINEAR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Makes the layer `key` of the configuration in the form named there.
//
// A step has at most max_rows rows. What the layer keeps from Backward to
// FinishBackward lies in the workspace under the name `scratch`; layers may
// share a name if none of them runs between the other's two calls.
//
// `head_runs` tells an LTE layer in training which rows each of its heads sees;
// it is the caller's, outlives the layer, and is set before each Forward. Null:
// the layer is in no LTE model.
std::unique_ptr<Linear> MakeLinear(const Plan& plan, const std::string& key,
                                   int64_t max_rows, const std::string& scratch,
                                   const LteHeadRuns* head_runs = nullptr);

// The rank of that layer's factors (RankSpaceLinear), or 0 if it has none.
int64_t FactorRank(const Plan& plan, const std::string& key, int64_t max_rows);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_MAKE_LINEAR_H_
