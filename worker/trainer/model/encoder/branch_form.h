#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BRANCH_FORM_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BRANCH_FORM_H_

#include <cstdint>

#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// How a half of an encoder layer is computed.
enum class BranchForm {
  kPruned,     // all ranks of its last layer are 0
  kRankSpace,  // between the rank vectors of its layers
  kBf16,       // by factors, with rows in bfloat16 where the stream is bfloat16
  kOrdinary,
};

// The form of a layer's attention and feed-forward branch. It follows from the
// configuration, the most rows of a step and what the backend can do, so that
// all members of a job choose alike.
BranchForm AttentionForm(const Plan& plan, int64_t layer);
BranchForm FfnForm(const Plan& plan, int64_t layer);

// Whether the residual stream lies in memory as bfloat16: at least half of all
// branches are kBf16. The others then widen what they read.
bool HasBf16Stream(const Plan& plan);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BRANCH_FORM_H_
