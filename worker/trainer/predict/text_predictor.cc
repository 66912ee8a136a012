// Answers requests with a classifier or a masked language model.
#include "worker/trainer/predict/text_predictor.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/predict/softmax.h"
#include "worker/trainer/predict/token_choices.h"

namespace comera::trainer {
namespace {

// Logits of one pass, unless one sequence has more: 64 MiB.
constexpr int64_t kMaxLogits = int64_t{1} << 24;

const std::string& MaskTokenOf(const ModelConfig& config,
                               const Tokenizer& tokenizer) {
  static const std::string* const kNone = new std::string;
  return config.family == v1::ModelSpec::MASKED_LM
             ? tokenizer.Token(tokenizer.special_tokens().mask)
             : *kNone;
}

}  // namespace

// The work of one request.
struct TextPredictor::Pass {
  const v1::PredictRequest* request = nullptr;
  v1::PredictResponse* response = nullptr;
  std::vector<Item> items;
  int64_t places = 0;  // sum over the items
  // pseudo_loss, by row.
  std::vector<double> loss_sums;
  std::vector<int64_t> losses;
};

absl::StatusOr<std::unique_ptr<Predictor>> TextPredictor::Create(
    PredictorParts parts, std::unique_ptr<Tokenizer> tokenizer) {
  if (tokenizer->vocabulary_size() != parts.config.vocabulary) {
    return absl::DataLossError(
        absl::StrCat("the vocabulary has ", tokenizer->vocabulary_size(),
                     " tokens, the model ", parts.config.vocabulary));
  }
  if (parts.config.length < 8) {
    return absl::DataLossError(
        absl::StrCat("length: ", parts.config.length, " is less than 8"));
  }
  return absl::WrapUnique(
      new TextPredictor(std::move(parts), std::move(tokenizer)));
}

TextPredictor::TextPredictor(PredictorParts parts,
                             std::unique_ptr<Tokenizer> tokenizer)
    : parts_(std::move(parts)),
      tokenizer_(std::move(tokenizer)),
      rows_(tokenizer_.get(), static_cast<int32_t>(parts_.config.length),
            MaskTokenOf(parts_.config, *tokenizer_)),
      segments_(tokenizer_->has_segments() && parts_.config.segments > 1) {
  served_ = parts_.served;
  if (masked_lm()) {
    served_.set_mask_token(MaskTokenOf(parts_.config, *tokenizer_));
  }
  for (const std::string& label : served_.labels()) {
    classes_.emplace(label, static_cast<int32_t>(classes_.size()));
  }
}

bool TextPredictor::masked_lm() const {
  return parts_.config.family == v1::ModelSpec::MASKED_LM;
}

int64_t TextPredictor::Width() const {
  return masked_lm() ? parts_.config.vocabulary : parts_.config.classes;
}

absl::Status TextPredictor::AddRow(const v1::PredictRow& row, Pass* pass) {
  if (row.numbers_size() > 0 || row.categories_size() > 0) {
    return absl::InvalidArgumentError("the model takes text");
  }
  const int index = pass->response->predictions_size() - 1;
  Item item;
  item.row = index;
  ASSIGN_OR_RETURN(item.sample, rows_.Encode(row));
  v1::Prediction* prediction = pass->response->mutable_predictions(index);
  const auto add = [&](Item added) -> absl::Status {
    const auto places = static_cast<int64_t>(added.places.size());
    const bool full = static_cast<int64_t>(pass->items.size()) ==
                          parts_.scorer->batch_size() ||
                      (pass->places + places) * Width() > kMaxLogits;
    if (full && !pass->items.empty()) RETURN_IF_ERROR(Flush(pass));
    pass->places += places;
    pass->items.push_back(std::move(added));
    return absl::OkStatus();
  };
  if (!masked_lm()) {
    if (row.has_label() && !served_.labels().empty() &&
        classes_.find(row.label()) == classes_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "label: '", Printable(row.label()), "' is no class of the model"));
    }
    prediction->set_truncated(item.sample.truncated);
    item.places = {0};
    return add(std::move(item));
  }
  if (!pass->request->pseudo_loss()) {
    if (item.sample.masks.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("text: no ", served_.mask_token(), " to fill",
                       item.sample.truncated ? " in what fits" : ""));
    }
    prediction->set_truncated(item.sample.truncated);
    item.places = item.sample.masks;
    return add(std::move(item));
  }
  const SpecialTokens& special = tokenizer_->special_tokens();
  if (std::all_of(item.sample.ids.begin(), item.sample.ids.end(),
                  [&](int32_t id) { return special.Contains(id); })) {
    return absl::InvalidArgumentError("text: no token to measure");
  }
  prediction->set_truncated(item.sample.truncated);
  for (size_t i = 0; i < item.sample.ids.size(); ++i) {
    const int32_t token = item.sample.ids[i];
    if (special.Contains(token)) continue;
    Item one;
    one.row = index;
    one.sample = item.sample;
    one.sample.ids[i] = special.mask;
    one.places = {static_cast<int32_t>(i)};
    one.hidden_token = token;
    RETURN_IF_ERROR(add(std::move(one)));
  }
  return absl::OkStatus();
}

void TextPredictor::FillClass(const v1::PredictRow& row,
                              absl::Span<const float> logits, bool with_logits,
                              v1::Prediction* prediction) const {
  const double total = LogSumExp(logits);
  const auto best = static_cast<int32_t>(
      std::max_element(logits.begin(), logits.end()) - logits.begin());
  prediction->set_class_index(best);
  if (best < served_.labels_size()) prediction->set_label(served_.labels(best));
  for (const float logit : logits) {
    prediction->add_probabilities(static_cast<float>(std::exp(logit - total)));
    if (with_logits) prediction->add_logits(logit);
  }
  if (!row.has_label()) return;
  const auto found = classes_.find(row.label());
  if (found != classes_.end()) {
    prediction->set_loss(total - logits[found->second]);
  }
}

void TextPredictor::FillMask(const v1::PredictRequest& request, int32_t place,
                             absl::Span<const float> logits,
                             v1::Prediction* prediction) const {
  v1::FilledMask* mask = prediction->add_masks();
  mask->set_position(place);
  FillChoices(request, logits, *tokenizer_, mask);
}

absl::Status TextPredictor::Flush(Pass* pass) {
  if (pass->items.empty()) return absl::OkStatus();
  Batch batch;
  ClearBatch(static_cast<int64_t>(pass->items.size()), parts_.config.length,
             tokenizer_->special_tokens().pad, &batch);
  for (size_t i = 0; i < pass->items.size(); ++i) {
    const Item& item = pass->items[i];
    PutSample(item.sample, static_cast<int64_t>(i), segments_, &batch);
    for (const int32_t place : item.places) {
      batch.label_rows.push_back(
          static_cast<int32_t>(i * parts_.config.length + place));
      batch.labels.push_back(0);  // only logits are looked at
    }
  }
  ASSIGN_OR_RETURN(const std::vector<float> logits,
                   parts_.scorer->Logits(batch));
  const int64_t width = Width();
  if (static_cast<int64_t>(logits.size()) != pass->places * width) {
    return absl::InternalError(
        absl::StrCat(logits.size(), " logits for ", pass->places, " places"));
  }
  const float* at = logits.data();
  for (const Item& item : pass->items) {
    v1::Prediction* prediction = pass->response->mutable_predictions(item.row);
    for (const int32_t place : item.places) {
      const absl::Span<const float> one(at, width);
      at += width;
      if (item.hidden_token >= 0) {
        pass->loss_sums[item.row] += LogSumExp(one) - one[item.hidden_token];
        ++pass->losses[item.row];
      } else if (masked_lm()) {
        FillMask(*pass->request, place, one, prediction);
      } else {
        FillClass(pass->request->rows(item.row), one, pass->request->logits(),
                  prediction);
      }
    }
  }
  pass->items.clear();
  pass->places = 0;
  return absl::OkStatus();
}

absl::Status TextPredictor::Answer(const v1::PredictRequest& request,
                                   v1::PredictResponse* response) {
  Pass pass;
  pass.request = &request;
  pass.response = response;
  pass.loss_sums.resize(request.rows_size());
  pass.losses.resize(request.rows_size());
  for (const v1::PredictRow& row : request.rows()) {
    v1::Prediction* prediction = response->add_predictions();
    const absl::Status status = AddRow(row, &pass);
    if (absl::IsInvalidArgument(status)) {
      prediction->set_error(std::string(status.message()));
    } else if (!status.ok()) {
      return status;
    }
  }
  RETURN_IF_ERROR(Flush(&pass));
  for (int i = 0; i < request.rows_size(); ++i) {
    if (pass.losses[i] == 0) continue;
    response->mutable_predictions(i)->set_loss(
        pass.loss_sums[i] / static_cast<double>(pass.losses[i]));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
