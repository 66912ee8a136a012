// A tensor-train layer contracted through groups of its cores.
#include "worker/trainer/model/linear/contracted_linear.h"

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kFloat = sizeof(float);

}  // namespace

ContractedLinear::ContractedLinear(const Plan& plan,
                                   const FactorisableLayer& layer,
                                   const Factorisation& f,
                                   const std::vector<int>& ends,
                                   int64_t max_rows, const std::string& scratch)
    : plan_(plan),
      bias_(plan, layer.name),
      cores_(plan, layer.name, scratch),
      // Shapes were checked with the configuration, groups by the planner.
      contraction_(*kernels::TtContraction::Create(
          {f.input_modes, f.output_modes, f.ranks}, ends, layer.outputs)) {
  SavedMemory& saved = *plan.saved;
  Workspace& workspace = *plan.workspace;
  kept_ = plan.memory->whole()->Reserve(layer.name + ".products",
                                        contraction_.kept_size() * kFloat);
  states_ = saved.Reserve(layer.name + ".states",
                          contraction_.state_size(max_rows) * kFloat);
  grad_groups_ = plan.sums->Reserve(scratch + ".grad_groups",
                                    contraction_.grad_group_size() * kFloat);
  finish_scratch_ = plan.sums->Reserve(
      scratch + ".contraction", contraction_.product_workspace_size() * kFloat);
  scratch_ = workspace.Reserve("linear.contraction",
                               contraction_.workspace_size(max_rows) * kFloat);
}

absl::Status ContractedLinear::Contract(const Step& step) {
  accumulating_ = false;
  RETURN_IF_ERROR(cores_.Fold(step));
  return contraction_.Build(plan_.backend, cores_.cores(),
                            plan_.memory->whole()->Floats(kept_));
}

absl::Status ContractedLinear::Forward(const Step& step, int64_t first_row,
                                       ConstMatrix x, Matrix y) {
  RETURN_IF_ERROR(contraction_.Forward(
      plan_.backend, cores_.cores(), plan_.memory->whole()->Floats(kept_), x,
      plan_.saved->Floats(states_) + contraction_.state_size(first_row), y));
  return bias_.Add(step, y);
}

absl::Status ContractedLinear::Repeat(const Step& step, int64_t first_row,
                                      ConstMatrix x, Matrix y) {
  return Forward(step, first_row, x, y);
}

absl::Status ContractedLinear::Backward(const Step& step, int64_t first_row,
                                        ConstMatrix x, ConstMatrix grad_y,
                                        Matrix grad_x, bool accumulate) {
  kernels::Backend& backend = *plan_.backend;
  float* grad_groups = plan_.sums->Floats(grad_groups_);
  if (!accumulating_) {
    accumulating_ = true;
    RETURN_IF_ERROR(
        backend.Fill({grad_groups, contraction_.grad_group_size()}, 0));
  }
  RETURN_IF_ERROR(bias_.Backward(step, grad_y));
  return contraction_.Backward(
      &backend, cores_.cores(), plan_.memory->whole()->Floats(kept_), x,
      plan_.saved->Floats(states_) + contraction_.state_size(first_row), grad_y,
      grad_x, accumulate, grad_groups, plan_.workspace->Floats(scratch_));
}

absl::Status ContractedLinear::FinishBackward(const Step& step) {
  if (!accumulating_) return absl::OkStatus();  // there were no rows
  accumulating_ = false;
  RETURN_IF_ERROR(contraction_.FinishBackward(
      plan_.backend, cores_.cores(), plan_.memory->whole()->Floats(kept_),
      plan_.sums->Floats(grad_groups_), cores_.grad_cores(),
      plan_.sums->Floats(finish_scratch_)));
  return cores_.Backward(step);
}

}  // namespace comera::trainer
