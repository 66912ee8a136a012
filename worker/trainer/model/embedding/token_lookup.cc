// Looks the words of a batch's tokens up, each distinct one once.
#include "worker/trainer/model/embedding/token_lookup.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/make_word_embedding.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kFloat = sizeof(float);

// The tokens whose dense rows are looked up apart; an expanded table has them
// in their places.
std::vector<int32_t> DenseTokens(const Plan& plan) {
  if (plan.table != nullptr) return {};
  return plan.config->layers_by_name.at("embedding").dense_tokens;
}

}  // namespace

TokenLookup::TokenLookup(const Plan& plan)
    : plan_(plan),
      hidden_(plan.config->hidden),
      dense_count_(static_cast<int64_t>(DenseTokens(plan).size())),
      unique_("token id", plan.max_rows, plan.config->vocabulary,
              dense_count_) {
  const int64_t rows = plan.max_rows;
  const int64_t max_others =
      std::min(rows, plan.config->vocabulary - dense_count_);
  const int64_t max_unique = dense_count_ + max_others;
  words_ = MakeWordEmbedding(plan, "embedding", max_others);
  if (dense_count_ > 0) {
    dense_rows_ = &plan.At(absl::StrCat(TransformerName(*plan.config),
                                        ".embedding.word.dense_rows"));
    OrderVocabulary(DenseTokens(plan));
  }
  ids_.reserve(rows);
  other_ids_.reserve(dense_count_ > 0 ? max_others : 0);
  SavedMemory& saved = *plan.saved;
  word_index_ = saved.Reserve("embedding.word_index", rows * kFloat);
  word_tokens_ = saved.Reserve("embedding.word_tokens", rows * kFloat);
  word_start_ =
      saved.Reserve("embedding.word_start", (max_unique + 1) * kFloat);
  unique_table_ = plan.workspace->Reserve("embedding.unique_rows",
                                          max_unique * hidden_ * kFloat);
}

void TokenLookup::OrderVocabulary(const std::vector<int32_t>& dense_tokens) {
  const auto vocabulary = static_cast<int32_t>(plan_.config->vocabulary);
  order_ = dense_tokens;
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (!absl::c_binary_search(dense_tokens, id)) order_.push_back(id);
  }
  place_of_id_.resize(vocabulary);
  for (int32_t i = 0; i < vocabulary; ++i) place_of_id_[order_[i]] = i;
}

Matrix TokenLookup::DenseOf(Matrix rows) const {
  return Matrix(rows.data, dense_count_, hidden_);
}

Matrix TokenLookup::OthersOf(Matrix rows) const {
  return Matrix(rows.data + dense_count_ * hidden_, words_count_ - dense_count_,
                hidden_);
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
  for (int64_t i = 0; i < tokens; ++i) {
    ids_[i] = batch.ids[packed.places()[i]];
    // What is outside the vocabulary, negative ids too, unique_ refuses.
    const auto id = static_cast<size_t>(ids_[i]);
    if (id < place_of_id_.size()) ids_[i] = place_of_id_[id];
  }
  RETURN_IF_ERROR(unique_.Set(ids_));
  words_count_ = unique_.count();
  if (pad) {
    words_count_ = dense_count_ +
                   std::min(tokens, plan_.config->vocabulary - dense_count_);
  }
  unique_.PadTo(words_count_);
  RETURN_IF_ERROR(SetWords(pad));
  const auto copy = [&](SavedMemory::Piece piece,
                        absl::Span<const int32_t> from) {
    return plan_.backend->CopyToDevice(plan_.saved->Address(piece), from.data(),
                                       from.size() * sizeof(int32_t));
  };
  RETURN_IF_ERROR(copy(word_index_, unique_.index()));
  RETURN_IF_ERROR(copy(word_tokens_, unique_.order()));
  return copy(word_start_, unique_.start());
}

absl::Status TokenLookup::SetWords(bool pad) {
  absl::Span<const int32_t> ids = unique_.unique();
  if (dense_rows_ != nullptr) {
    other_ids_.clear();
    for (const int32_t place : ids.subspan(dense_count_)) {
      other_ids_.push_back(order_[place]);
    }
    ids = other_ids_;
  }
  return words_->SetIds(ids, pad ? words_count_ - dense_count_ : 0);
}

void TokenLookup::AppendShape(std::vector<int64_t>* shape) const {
  shape->push_back(words_count_);
  words_->AppendShape(shape);
}

absl::Status TokenLookup::Forward(const Step& step, Matrix y) {
  const Matrix unique_rows(plan_.workspace->Floats(unique_table_), words_count_,
                           hidden_);
  if (dense_rows_ != nullptr) {
    RETURN_IF_ERROR(plan_.backend->CopyRows(
        ConstMatrix(step.parameters + dense_rows_->offset, dense_count_,
                    hidden_),
        DenseOf(unique_rows)));
  }
  if (words_count_ > dense_count_) {
    RETURN_IF_ERROR(words_->Forward(step, OthersOf(unique_rows)));
  }
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
  if (dense_rows_ != nullptr) {
    const Matrix dense_grad = DenseOf(unique_grad);
    RETURN_IF_ERROR(plan_.backend->Axpy(1, {dense_grad.data, dense_rows_->size},
                                        step.Gradient(*dense_rows_)));
  }
  if (words_count_ == dense_count_) return absl::OkStatus();
  return words_->Backward(step, OthersOf(unique_grad));
}

}  // namespace comera::trainer
