// The attention half of an encoder layer.
#include "worker/trainer/model/encoder/attention_block.h"

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/encoder/make_attention_branch.h"

namespace comera::trainer {

AttentionBlock::AttentionBlock(const Plan& plan, int64_t layer,
                               const LteHeadRuns* head_runs)
    : ResidualBlock(plan, absl::StrCat("encoder.layers.", layer, ".attention"),
                    absl::StrCat("layers.", layer, ".attention"),
                    AttentionOutputDropout(layer),
                    MakeAttentionBranch(plan, layer, head_runs)) {}

}  // namespace comera::trainer
