// The projection to the vocabulary by the word embedding's own table.
#include "worker/trainer/model/head/tied_projection.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr char kEmbedding[] = "embedding";

// Rows of a TTM table at a time: enough for what a block costs besides its rows
// (the contraction of half chains) to be little beside them.
constexpr int64_t kBlockRows = 4096;

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
  if (whole()) return;
  block_ = std::min(kBlockRows, vocabulary_);
  dense_rows_.emplace(plan, table, form.dense_tokens, block_);
  table_ = std::make_unique<TtmEmbedding>(plan, table, form, block_, blocks());
  const int64_t bytes = block_ * hidden_ * int64_t{sizeof(float)};
  rows_ = plan.workspace->Reserve("head.table_rows", bytes);
  grad_rows_ = plan.workspace->Reserve("head.grad_table_rows", bytes);
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

absl::Status TiedProjection::SetUp() {
  if (whole() || set_up_) return absl::OkStatus();
  RETURN_IF_ERROR(dense_rows_->SetUp());
  std::vector<int32_t> ids;
  for (int64_t block = 0; block < blocks(); ++block) {
    ids.resize(BlockSize(block));
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(block * block_));
    table_->Choose(block);
    RETURN_IF_ERROR(table_->SetIds(ids));
  }
  set_up_ = true;
  return absl::OkStatus();
}

absl::Status TiedProjection::ComputeRows(const Step& step, int64_t block,
                                         Matrix* rows) {
  table_->Choose(block);
  *rows = Matrix(plan_.workspace->Floats(rows_), BlockSize(block), hidden_);
  RETURN_IF_ERROR(table_->Forward(step, *rows));
  return dense_rows_->Put(step, block, *rows);
}

absl::Status TiedProjection::Forward(const Step& step, int64_t, ConstMatrix x,
                                     Matrix y) {
  kernels::Backend& backend = *plan_.backend;
  if (whole()) return bias_.Product(step, true, x, Table(step), y);
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
  for (int64_t block = 0; block < blocks(); ++block) {
    Matrix rows;
    RETURN_IF_ERROR(ComputeRows(step, block, &rows));
    const ConstMatrix grad = Columns(grad_y, block * block_, rows.rows);
    if (grad_x.data != nullptr) {
      RETURN_IF_ERROR(backend.Gemm(false, false, 1, grad, rows,
                                   accumulate || block > 0 ? 1 : 0, grad_x));
    }
    const Matrix grad_rows(plan_.workspace->Floats(grad_rows_), rows.rows,
                           hidden_);
    RETURN_IF_ERROR(backend.Gemm(true, false, 1, grad, x, 0, grad_rows));
    RETURN_IF_ERROR(dense_rows_->MoveGradient(step, block, grad_rows));
    RETURN_IF_ERROR(table_->Backward(step, grad_rows));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
