// Expands the word table of tied models, and projects its gradient back.
#include "worker/trainer/model/embedding/expanded_table.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

// A table and its gradient are each at most so large. In the host's memory that
// is as much as the logits of a chunk of labels may take.
constexpr int64_t kMostHostBytes = int64_t{1} << 25;
constexpr int64_t kMostDeviceBytes = int64_t{1} << 30;

constexpr int64_t kFloat = sizeof(float);

}  // namespace

std::unique_ptr<ExpandedTable> ExpandedTable::Create(const Plan& plan) {
  const ModelConfig& config = *plan.config;
  const Factorisation& form = config.layers_by_name.at("embedding");
  if (!config.tie_output || form.dense() || form.ranks[0] == 0) return nullptr;
  // Shapes were checked with the configuration.
  kernels::TtmExpansion expansion = *kernels::TtmExpansion::Create(
      {form.input_modes, form.output_modes, form.ranks});
  const int64_t most =
      plan.backend->in_host_memory() ? kMostHostBytes : kMostDeviceBytes;
  if (expansion.rows() * config.hidden * kFloat > most) return nullptr;
  return absl::WrapUnique(new ExpandedTable(
      plan, absl::StrCat(TransformerName(config), ".embedding.word"),
      std::move(expansion)));
}

ExpandedTable::ExpandedTable(const Plan& plan, const std::string& name,
                             kernels::TtmExpansion expansion)
    : plan_(plan),
      vocabulary_(plan.config->vocabulary),
      hidden_(plan.config->hidden),
      expansion_(std::move(expansion)),
      cores_(plan, name, "embedding.table"),
      dense_rows_(plan, name,
                  plan.config->layers_by_name.at("embedding").dense_tokens,
                  vocabulary_) {
  const int64_t bytes = expansion_.rows() * hidden_ * kFloat;
  SavedMemory& whole = *plan.memory->whole();
  expanded_ = whole.Reserve("embedding.table", bytes);
  halves_ =
      whole.Reserve("embedding.table_halves", expansion_.kept_size() * kFloat);
  gradient_ = plan.memory->gradients()->Reserve("embedding.grad_table", bytes);
  scratch_ = plan.workspace->Reserve("embedding.table_scratch",
                                     expansion_.scratch_size() * kFloat);
}

ConstMatrix ExpandedTable::rows() const {
  return ConstMatrix(plan_.memory->whole()->Floats(expanded_), vocabulary_,
                     hidden_);
}

Matrix ExpandedTable::Gradient() const {
  return Matrix(plan_.memory->gradients()->Floats(gradient_), vocabulary_,
                hidden_);
}

absl::Status ExpandedTable::Expand(const Step& step) {
  has_gradient_ = false;
  float* const table = plan_.memory->whole()->Floats(expanded_);
  RETURN_IF_ERROR(cores_.Fold(step));
  RETURN_IF_ERROR(expansion_.Forward(plan_.backend, cores_.cores(),
                                     plan_.memory->whole()->Floats(halves_),
                                     plan_.workspace->Floats(scratch_), table));
  return dense_rows_.Put(step, 0, Matrix(table, vocabulary_, hidden_));
}

absl::Status ExpandedTable::AddGradient(ConstMatrix grad_y, ConstMatrix x) {
  const float beta = has_gradient_ ? 1 : 0;
  has_gradient_ = true;
  return plan_.backend->Gemm(true, false, 1, grad_y, x, beta, Gradient());
}

absl::Status ExpandedTable::AddGradient(ConstMatrix grad_rows,
                                        ConstIndices ids) {
  const Matrix gradient = Gradient();
  if (!has_gradient_) {
    RETURN_IF_ERROR(
        plan_.backend->Fill({gradient.data, vocabulary_ * hidden_}, 0));
    has_gradient_ = true;
  }
  return plan_.backend->ScatterAddRows(grad_rows, ids, gradient);
}

absl::Status ExpandedTable::FinishBackward(const Step& step) {
  if (!has_gradient_) return absl::OkStatus();
  has_gradient_ = false;
  const Matrix gradient = Gradient();
  RETURN_IF_ERROR(dense_rows_.MoveGradient(step, 0, gradient));
  // Nothing reads the rows behind the vocabulary.
  RETURN_IF_ERROR(
      plan_.backend->Fill({gradient.data + vocabulary_ * hidden_,
                           (expansion_.rows() - vocabulary_) * hidden_},
                          0));
  RETURN_IF_ERROR(expansion_.Backward(
      plan_.backend, cores_.cores(), plan_.memory->whole()->Floats(halves_),
      gradient.data, cores_.grad_cores(), plan_.workspace->Floats(scratch_)));
  return cores_.Backward(step);
}

}  // namespace comera::trainer
