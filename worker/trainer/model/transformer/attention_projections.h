#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_ATTENTION_PROJECTIONS_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_ATTENTION_PROJECTIONS_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The linear layers of output(attention(query(x), key(x), value(x))).
struct AttentionProjections {
  std::unique_ptr<Linear> query, key, value, output;
};

// Makes those of a block. `head_runs` is what MakeLinear needs for LTE.
AttentionProjections MakeAttentionProjections(const Plan& plan, int64_t layer,
                                              const LteHeadRuns* head_runs);

// Makes the last of them alone.
std::unique_ptr<Linear> MakeAttentionOutput(const Plan& plan, int64_t layer,
                                            const LteHeadRuns* head_runs);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_ATTENTION_PROJECTIONS_H_
