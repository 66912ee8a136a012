// Makes the linear layers around the attention of a block.
#include "worker/trainer/model/transformer/attention_projections.h"

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/linear/make_linear.h"

namespace comera::trainer {
namespace {

// In rank space their backward passes run beside each other, so each has
// scratch memory of its own.
std::unique_ptr<Linear> Make(const Plan& plan, int64_t layer, const char* part,
                             const LteHeadRuns* head_runs) {
  return MakeLinear(plan, absl::StrCat("layers.", layer, ".", part),
                    plan.max_rows, absl::StrCat("attention.", part), head_runs);
}

}  // namespace

AttentionProjections MakeAttentionProjections(const Plan& plan, int64_t layer,
                                              const LteHeadRuns* head_runs) {
  return {Make(plan, layer, "query", head_runs),
          Make(plan, layer, "key", head_runs),
          Make(plan, layer, "value", head_runs),
          MakeAttentionOutput(plan, layer, head_runs)};
}

std::unique_ptr<Linear> MakeAttentionOutput(const Plan& plan, int64_t layer,
                                            const LteHeadRuns* head_runs) {
  return Make(plan, layer, "output", head_runs);
}

}  // namespace comera::trainer
