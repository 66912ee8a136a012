// Computes table rows from TTM cores.
#include "worker/trainer/model/embedding/ttm_embedding.h"

#include "common/status_macros.h"
#include "worker/trainer/model/plan/unique_ids.h"

namespace comera::trainer {

namespace {

constexpr int64_t kFloat = sizeof(float);

}  // namespace

TtmEmbedding::TtmEmbedding(const Plan& plan, const std::string& name,
                           const Factorisation& factorisation, int64_t max_ids)
    : plan_(plan),
      cores_(plan, name, "linear", FoldedCores::Memory::kContraction),
      max_ids_(max_ids) {
  for (int64_t mode : factorisation.input_modes) rows_ *= mode;
  if (factorisation.ranks[0] == 0) return;
  // Shapes were checked with the configuration.
  chain_.emplace(*kernels::TtmPlan::Create(
      {factorisation.input_modes, factorisation.output_modes,
       factorisation.ranks},
      max_ids));
  index_.emplace(chain_->plan());
  lists_ = plan.memory->whole()->Reserve(
      name + ".lists", index_->lists().size() * int64_t{sizeof(int32_t)});
  kept_ = plan.saved->Reserve(name + ".blocks", chain_->kept_size() * kFloat);
  grad_blocks_ = plan.workspace->Reserve("embedding.grad_blocks",
                                         chain_->workspace_size() * kFloat);
}

absl::Status TtmEmbedding::SetIds(absl::Span<const int32_t> ids,
                                  int64_t padded_rows) {
  if (!chain_) return CheckUniqueIds(ids, max_ids_, rows_);
  RETURN_IF_ERROR(index_->Set(ids, padded_rows));
  return plan_.backend->CopyToDevice(Lists(), index_->lists().data(),
                                     index_->lists().size() * sizeof(int32_t));
}

void TtmEmbedding::AppendShape(std::vector<int64_t>* shape) const {
  if (!chain_) return;
  for (size_t i = 0; i < chain_->plan().steps().size(); ++i) {
    const kernels::TtmPairs pairs = index_->Pairs(static_cast<int>(i), nullptr);
    shape->insert(shape->end(), {pairs.left.size, pairs.start.size});
  }
}

absl::Status TtmEmbedding::Forward(const Step& step, kernels::Matrix rows) {
  kernels::Backend& backend = *plan_.backend;
  if (!chain_) return backend.Fill({rows.data, rows.rows * rows.cols}, 0);
  RETURN_IF_ERROR(cores_.Fold(step));
  return chain_->Forward(&backend, cores_.cores(), *index_, Lists(),
                         plan_.saved->Floats(kept_), rows);
}

absl::Status TtmEmbedding::Backward(const Step& step,
                                    kernels::ConstMatrix grad_rows) {
  if (!chain_) return absl::OkStatus();
  RETURN_IF_ERROR(cores_.FoldAgain(step));
  RETURN_IF_ERROR(chain_->Backward(plan_.backend, cores_.cores(), *index_,
                                   Lists(), plan_.saved->Floats(kept_),
                                   grad_rows, cores_.grad_cores(),
                                   plan_.workspace->Floats(grad_blocks_)));
  return cores_.Backward(step);
}

}  // namespace comera::trainer
