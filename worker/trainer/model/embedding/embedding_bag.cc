// Sums table rows over bags of ids.
#include "worker/trainer/model/embedding/embedding_bag.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/make_word_embedding.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::Matrix;

namespace {

FactorisableLayer LayerOf(const ModelConfig& config, const std::string& key) {
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    if (layer.key == key) return layer;
  }
  return {};
}

absl::Status CheckOffsets(const std::string& key,
                          absl::Span<const int32_t> offsets, int64_t max_bags,
                          int64_t ids) {
  const int64_t bags = static_cast<int64_t>(offsets.size()) - 1;
  if (bags < 0 || bags > max_bags) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", offsets.size(),
                     " offsets of bags, planned for "
                     "at most ",
                     max_bags, " bags"));
  }
  int32_t before = 0;
  for (int32_t offset : offsets) {
    if (offset < before) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": bag offset ", offset, " comes after ", before));
    }
    before = offset;
  }
  if (offsets.front() == 0 && offsets.back() == ids) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": bag offsets run from ", offsets.front(), " to ",
                   offsets.back(), ", the ids from 0 to ", ids));
}

}  // namespace

EmbeddingBag::EmbeddingBag(const Plan& plan, const std::string& key,
                           int64_t max_ids, int64_t max_bags)
    : plan_(plan),
      key_(key),
      max_bags_(max_bags),
      unique_(key + " id", max_ids, LayerOf(*plan.config, key).inputs) {
  const FactorisableLayer layer = LayerOf(*plan.config, key);
  const int64_t max_unique = std::min(max_ids, layer.inputs);
  max_unique_ = max_unique;
  width_ = layer.outputs;
  table_ = MakeWordEmbedding(plan, key, max_unique);
  each_.resize(max_ids + 1);
  std::iota(each_.begin(), each_.end(), 0);
  bag_of_id_.reserve(max_ids);
  users_.reserve(max_ids);

  SavedMemory& saved = *plan.saved;
  const auto list = [&](const char* what, int64_t count) {
    return saved.Reserve(absl::StrCat(layer.name, ".", what),
                         count * int64_t{sizeof(int32_t)});
  };
  index_ = list("index", max_ids);
  offsets_ = list("offsets", max_bags + 1);
  bag_users_ = list("users", max_ids);
  start_ = list("start", max_unique + 1);
  rows_ = plan.workspace->Reserve("embedding.unique_rows",
                                  max_unique * width_ * int64_t{sizeof(float)});
}

absl::Status EmbeddingBag::SetBatch(absl::Span<const int32_t> ids, bool pad) {
  if (ids.size() >= each_.size())
    return unique_.Set(ids);  // says what is wrong
  return SetBatch(ids, absl::MakeConstSpan(each_).first(ids.size() + 1), pad);
}

absl::Status EmbeddingBag::SetBatch(absl::Span<const int32_t> ids,
                                    absl::Span<const int32_t> offsets,
                                    bool pad) {
  const int64_t count = static_cast<int64_t>(ids.size());
  RETURN_IF_ERROR(CheckOffsets(key_, offsets, max_bags_, count));
  RETURN_IF_ERROR(unique_.Set(ids));
  distinct_ = pad ? std::min(count, max_unique_) : unique_.count();
  unique_.PadTo(distinct_);
  RETURN_IF_ERROR(table_->SetIds(unique_.unique(), pad ? distinct_ : 0));
  ids_ = count;
  bags_ = static_cast<int64_t>(offsets.size()) - 1;
  bag_of_id_.resize(count);
  for (int64_t bag = 0; bag < bags_; ++bag) {
    std::fill(bag_of_id_.begin() + offsets[bag],
              bag_of_id_.begin() + offsets[bag + 1], static_cast<int32_t>(bag));
  }
  users_.resize(count);
  for (int64_t q = 0; q < count; ++q) {
    users_[q] = bag_of_id_[unique_.order()[q]];
  }
  const auto copy = [&](SavedMemory::Piece piece,
                        absl::Span<const int32_t> from) {
    return plan_.backend->CopyToDevice(plan_.saved->Address(piece), from.data(),
                                       from.size() * sizeof(int32_t));
  };
  RETURN_IF_ERROR(copy(index_, unique_.index()));
  RETURN_IF_ERROR(copy(offsets_, offsets));
  RETURN_IF_ERROR(copy(bag_users_, users_));
  return copy(start_, unique_.start());
}

void EmbeddingBag::AppendShape(std::vector<int64_t>* shape) const {
  shape->insert(shape->end(), {ids_, bags_, distinct_});
  table_->AppendShape(shape);
}

Matrix EmbeddingBag::UniqueRows() const {
  return Matrix(plan_.workspace->Floats(rows_), distinct_, width_);
}

absl::Status EmbeddingBag::Forward(const Step& step, Matrix out) {
  const SavedMemory& saved = *plan_.saved;
  RETURN_IF_ERROR(table_->Forward(step, UniqueRows()));
  return plan_.backend->SumRows(
      UniqueRows(), ConstIndices(saved.Ints(index_), ids_),
      ConstIndices(saved.Ints(offsets_), bags_ + 1), out);
}

absl::Status EmbeddingBag::Backward(const Step& step,
                                    kernels::ConstMatrix grad_out) {
  const SavedMemory& saved = *plan_.saved;
  // A distinct row's gradient is the sum over the bags that hold it.
  RETURN_IF_ERROR(plan_.backend->SumRows(
      grad_out, ConstIndices(saved.Ints(bag_users_), ids_),
      ConstIndices(saved.Ints(start_), distinct_ + 1), UniqueRows()));
  return table_->Backward(step, UniqueRows());
}

}  // namespace comera::trainer
