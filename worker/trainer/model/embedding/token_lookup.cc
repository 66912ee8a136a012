// Looks the words of a batch's tokens up, each distinct one once.
#include "worker/trainer/model/embedding/token_lookup.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/make_word_embedding.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kFloat = sizeof(float);

}  // namespace

TokenLookup::TokenLookup(const Plan& plan)
    : plan_(plan),
      hidden_(plan.config->hidden),
      unique_("token id", plan.max_rows, plan.config->vocabulary) {
  const int64_t rows = plan.max_rows;
  const int64_t max_unique = std::min(rows, plan.config->vocabulary);
  words_ = MakeWordEmbedding(plan, "embedding", max_unique);
  ids_.reserve(rows);
  SavedMemory& saved = *plan.saved;
  word_index_ = saved.Reserve("embedding.word_index", rows * kFloat);
  word_tokens_ = saved.Reserve("embedding.word_tokens", rows * kFloat);
  word_start_ =
      saved.Reserve("embedding.word_start", (max_unique + 1) * kFloat);
  unique_table_ = plan.workspace->Reserve("embedding.unique_rows",
                                          max_unique * hidden_ * kFloat);
}

absl::Status TokenLookup::SetBatch(const Batch& batch,
                                   const PackedBatch& packed, bool pad) {
  const int64_t rows = batch.size * batch.length;
  if (static_cast<int64_t>(batch.ids.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: ", batch.ids.size(), " ids for ", rows, " tokens"));
  }
  const int64_t tokens = packed.tokens();
  ids_.resize(tokens);
  for (int64_t i = 0; i < tokens; ++i) ids_[i] = batch.ids[packed.places()[i]];
  RETURN_IF_ERROR(unique_.Set(ids_));
  words_count_ = unique_.count();
  if (pad) words_count_ = std::min(tokens, plan_.config->vocabulary);
  unique_.PadTo(words_count_);
  RETURN_IF_ERROR(words_->SetIds(unique_.unique(), pad ? words_count_ : 0));
  const auto copy = [&](SavedMemory::Piece piece,
                        absl::Span<const int32_t> from) {
    return plan_.backend->CopyToDevice(plan_.saved->Address(piece), from.data(),
                                       from.size() * sizeof(int32_t));
  };
  RETURN_IF_ERROR(copy(word_index_, unique_.index()));
  RETURN_IF_ERROR(copy(word_tokens_, unique_.order()));
  return copy(word_start_, unique_.start());
}

void TokenLookup::AppendShape(std::vector<int64_t>* shape) const {
  shape->push_back(words_count_);
  words_->AppendShape(shape);
}

absl::Status TokenLookup::Forward(const Step& step, Matrix y) {
  const Matrix unique_rows(plan_.workspace->Floats(unique_table_), words_count_,
                           hidden_);
  RETURN_IF_ERROR(words_->Forward(step, unique_rows));
  return plan_.backend->GatherRows(
      unique_rows, ConstIndices(plan_.saved->Ints(word_index_), y.rows), y);
}

absl::Status TokenLookup::Backward(const Step& step, ConstMatrix grad) {
  const Matrix unique_grad(plan_.workspace->Floats(unique_table_), words_count_,
                           hidden_);
  RETURN_IF_ERROR(plan_.backend->SumRows(
      grad, ConstIndices(plan_.saved->Ints(word_tokens_), grad.rows),
      ConstIndices(plan_.saved->Ints(word_start_), words_count_ + 1),
      unique_grad));
  return words_->Backward(step, unique_grad);
}

}  // namespace comera::trainer
