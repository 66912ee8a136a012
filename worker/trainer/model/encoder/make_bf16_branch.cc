// Makes the branches of an encoder layer whose stream is bfloat16.
#include "worker/trainer/model/encoder/make_bf16_branch.h"

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/encoder/bf16_attention_branch.h"
#include "worker/trainer/model/encoder/bf16_ffn_branch.h"
#include "worker/trainer/model/encoder/branch_form.h"
#include "worker/trainer/model/encoder/make_attention_branch.h"
#include "worker/trainer/model/encoder/make_ffn_branch.h"
#include "worker/trainer/model/encoder/widened_branch.h"
#include "worker/trainer/model/linear/make_linear.h"
#include "worker/trainer/model/transformer/attention_projections.h"

namespace comera::trainer {
namespace {

Plan WithoutRows(Plan plan) {
  plan.rows_elsewhere = true;
  return plan;
}

}  // namespace

std::unique_ptr<Bf16Branch> MakeBf16AttentionBranch(
    const Plan& plan, int64_t layer, const LteHeadRuns* head_runs) {
  if (AttentionForm(plan, layer) != BranchForm::kBf16) {
    return std::make_unique<WidenedBranch>(
        plan, MakeAttentionBranch(plan, layer, head_runs));
  }
  return std::make_unique<Bf16AttentionBranch>(
      plan, layer,
      MakeAttentionProjections(WithoutRows(plan), layer, head_runs));
}

std::unique_ptr<Bf16Branch> MakeBf16FfnBranch(const Plan& plan, int64_t layer,
                                              const LteHeadRuns* head_runs) {
  if (FfnForm(plan, layer) != BranchForm::kBf16) {
    return std::make_unique<WidenedBranch>(
        plan, MakeFfnBranch(plan, layer, head_runs));
  }
  const auto linear = [&](const char* part) {
    return MakeLinear(WithoutRows(plan),
                      absl::StrCat("layers.", layer, ".ffn_", part),
                      plan.max_rows, absl::StrCat("ffn.", part), head_runs);
  };
  return std::make_unique<Bf16FfnBranch>(
      plan, layer, kernels::Activation::kGelu, linear("up"), linear("down"));
}

}  // namespace comera::trainer
