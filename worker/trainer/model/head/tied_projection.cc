// The projection to the vocabulary by the word embedding's own table.
#include "worker/trainer/model/head/tied_projection.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr char kEmbedding[] = "embedding";

// Rows of a TTM table at a time: steps of CodeBERT-LARGE take as long with
// 2,048, and need 12 MB more.
constexpr int64_t kBlockRows = 1024;

constexpr int64_t kFloat = sizeof(float);

Matrix Columns(Matrix m, int64_t first, int64_t count) {
  return Matrix(m.data + first, m.rows, count, m.stride);
}

ConstMatrix Columns(ConstMatrix m, int64_t first, int64_t count) {
  return ConstMatrix(m.data + first, m.rows, count, m.stride);
}

}  // namespace

TiedProjection::TiedProjection(const Plan& plan)
    : plan_(plan),
      vocabulary_(plan.config->vocabulary),
      hidden_(plan.config->hidden),
      bias_(plan, "head.output") {
  const Factorisation& form = plan.config->layers_by_name.at(kEmbedding);
  const std::string table =
      absl::StrCat(TransformerName(*plan.config), ".embedding.word");
  if (form.dense()) {
    weight_ = &plan.At(table + ".weight");
    return;
  }
  if (!whole()) PlanBlocks(plan, table, form);
}

void TiedProjection::PlanBlocks(const Plan& plan, const std::string& table,
                                const Factorisation& form) {
  block_ = std::min(kBlockRows, vocabulary_);
  if (form.ranks[0] > 0) {
    // Shapes were checked with the configuration.
    expansion_ = *kernels::TtmExpansion::Create(
        {form.input_modes, form.output_modes, form.ranks}, block_);
    block_ = expansion_->max_parts() * expansion_->part_rows();
    cores_.emplace(plan, table, "head.table",
                   FoldedCores::Memory::kContraction);
    halves_ = plan.saved->Reserve("head.table_halves",
                                  expansion_->kept_size() * kFloat);
    scratch_ = plan.workspace->Reserve("head.table_scratch",
                                       expansion_->scratch_size() * kFloat);
  }
  dense_rows_.emplace(plan, table, form.dense_tokens, block_);
  rows_ = plan.workspace->Reserve("head.table_rows", block_ * hidden_ * kFloat);
}

ConstMatrix TiedProjection::Table(const Step& step) const {
  if (weight_ == nullptr) return plan_.table->rows();
  return ConstMatrix(step.parameters + weight_->offset, vocabulary_, hidden_);
}

absl::Status TiedProjection::AddTableGradient(const Step& step, ConstMatrix x,
                                              ConstMatrix grad_y) {
  if (weight_ == nullptr) return plan_.table->AddGradient(grad_y, x);
  return plan_.backend->Gemm(
      true, false, 1, grad_y, x, 1,
      Matrix(step.Gradient(*weight_).data, vocabulary_, hidden_));
}

int64_t TiedProjection::BlockSize(int64_t block) const {
  return std::min(block_, vocabulary_ - block * block_);
}

int64_t TiedProjection::Parts(int64_t block) const {
  const int64_t rows = expansion_->part_rows();
  return (BlockSize(block) + rows - 1) / rows;
}

absl::Status TiedProjection::SetUp() {
  return dense_rows_.has_value() ? dense_rows_->SetUp() : absl::OkStatus();
}

absl::Status TiedProjection::Contract(const Step& step) {
  if (!expansion_.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(cores_->Fold(step));
  return expansion_->JoinHalves(plan_.backend, cores_->cores(),
                                plan_.saved->Floats(halves_),
                                plan_.workspace->Floats(scratch_));
}

absl::Status TiedProjection::ComputeRows(const Step& step, int64_t block,
                                         Matrix* rows) {
  *rows = Matrix(plan_.workspace->Floats(rows_), BlockSize(block), hidden_);
  if (expansion_.has_value()) {
    RETURN_IF_ERROR(expansion_->ExpandParts(
        plan_.backend, cores_->cores(), plan_.saved->Floats(halves_),
        FirstPart(block), Parts(block), plan_.workspace->Floats(scratch_),
        rows->data));
  } else {
    RETURN_IF_ERROR(plan_.backend->Fill({rows->data, rows->rows * hidden_}, 0));
  }
  return dense_rows_->Put(step, block, *rows);
}

absl::Status TiedProjection::ProjectRows(const Step& step, int64_t block,
                                         Matrix grad_rows) {
  RETURN_IF_ERROR(dense_rows_->MoveGradient(step, block, grad_rows));
  if (!expansion_.has_value()) return absl::OkStatus();
  // No logit reads the rows behind the vocabulary.
  const int64_t size = grad_rows.rows * hidden_;
  RETURN_IF_ERROR(plan_.backend->Fill(
      {grad_rows.data + size,
       Parts(block) * expansion_->part_rows() * hidden_ - size},
      0));
  return expansion_->ProjectParts(
      plan_.backend, cores_->cores(), plan_.saved->Floats(halves_),
      FirstPart(block), Parts(block), grad_rows.data, cores_->grad_cores(),
      plan_.workspace->Floats(scratch_));
}

absl::Status TiedProjection::Forward(const Step& step, int64_t, ConstMatrix x,
                                     Matrix y) {
  kernels::Backend& backend = *plan_.backend;
  if (whole()) return bias_.Product(step, true, x, Table(step), y);
  if (cores_.has_value()) RETURN_IF_ERROR(cores_->FoldAgain(step));
  for (int64_t block = 0; block < blocks(); ++block) {
    Matrix rows;
    RETURN_IF_ERROR(ComputeRows(step, block, &rows));
    RETURN_IF_ERROR(backend.Gemm(false, true, 1, x, rows, 0,
                                 Columns(y, block * block_, rows.rows)));
  }
  return bias_.Add(step, y);
}

absl::Status TiedProjection::Repeat(const Step& step, int64_t first_row,
                                    ConstMatrix x, Matrix y) {
  return Forward(step, first_row, x, y);
}

absl::Status TiedProjection::Backward(const Step& step, int64_t, ConstMatrix x,
                                      ConstMatrix grad_y, Matrix grad_x,
                                      bool accumulate) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(bias_.Backward(step, grad_y));
  if (whole()) {
    RETURN_IF_ERROR(AddTableGradient(step, x, grad_y));
    if (grad_x.data == nullptr) return absl::OkStatus();
    return backend.Gemm(false, false, 1, grad_y, Table(step),
                        accumulate ? 1 : 0, grad_x);
  }
  if (cores_.has_value()) RETURN_IF_ERROR(cores_->FoldAgain(step));
  for (int64_t block = 0; block < blocks(); ++block) {
    Matrix rows;
    RETURN_IF_ERROR(ComputeRows(step, block, &rows));
    const ConstMatrix grad = Columns(grad_y, block * block_, rows.rows);
    if (grad_x.data != nullptr) {
      RETURN_IF_ERROR(backend.Gemm(false, false, 1, grad, rows,
                                   accumulate || block > 0 ? 1 : 0, grad_x));
    }
    // The gradient of the rows takes their place.
    RETURN_IF_ERROR(backend.Gemm(true, false, 1, grad, x, 0, rows));
    RETURN_IF_ERROR(ProjectRows(step, block, rows));
  }
  if (!expansion_.has_value()) return absl::OkStatus();
  const int64_t last = blocks() - 1;
  RETURN_IF_ERROR(expansion_->SplitHalves(
      plan_.backend, cores_->cores(), plan_.saved->Floats(halves_),
      FirstPart(last) + Parts(last), cores_->grad_cores(),
      plan_.workspace->Floats(scratch_)));
  return cores_->Backward(step);
}

}  // namespace comera::trainer
