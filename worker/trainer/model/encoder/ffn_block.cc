// The feed-forward half of an encoder layer.
#include "worker/trainer/model/encoder/ffn_block.h"

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/encoder/make_ffn_branch.h"

namespace comera::trainer {

FfnBlock::FfnBlock(const Plan& plan, int64_t layer,
                   const LteHeadRuns* head_runs)
    : ResidualBlock(plan, absl::StrCat("encoder.layers.", layer, ".ffn"),
                    absl::StrCat("layers.", layer, ".ffn"),
                    FfnOutputDropout(layer),
                    MakeFfnBranch(plan, layer, head_runs)) {}

}  // namespace comera::trainer
