// Answers requests with a causal language model.
#include "worker/trainer/predict/causal_predictor.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/predict/softmax.h"
#include "worker/trainer/predict/text_rows.h"
#include "worker/trainer/predict/token_choices.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<Predictor>> CausalPredictor::Create(
    PredictorParts parts, std::unique_ptr<Tokenizer> tokenizer) {
  if (tokenizer->vocabulary_size() != parts.config.vocabulary) {
    return absl::DataLossError(
        absl::StrCat("the vocabulary has ", tokenizer->vocabulary_size(),
                     " tokens, the model ", parts.config.vocabulary));
  }
  auto predictor = absl::WrapUnique(
      new CausalPredictor(std::move(parts), std::move(tokenizer)));
  RETURN_IF_ERROR(predictor->MakeGenerator());
  return std::unique_ptr<Predictor>(std::move(predictor));
}

CausalPredictor::CausalPredictor(PredictorParts parts,
                                 std::unique_ptr<Tokenizer> tokenizer)
    : parts_(std::move(parts)),
      tokenizer_(std::move(tokenizer)),
      generator_(absl::UnknownError("not made")) {
  served_ = parts_.served;
}

absl::Status CausalPredictor::MakeGenerator() {
  try {
    generator_ =
        Generator::Create(parts_.config, parts_.scorer->parameters(), {},
                          tokenizer_.get(), parts_.backend.get());
  } catch (const std::bad_alloc&) {
    generator_ = absl::ResourceExhaustedError(
        "folding the layers takes more memory than there is");
  }
  if (generator_.ok()) {
    served_.set_max_generations(static_cast<int32_t>((*generator_)->slots()));
    return absl::OkStatus();
  }
  // Where only this does not fit, the model still predicts.
  return absl::IsResourceExhausted(generator_.status()) ? absl::OkStatus()
                                                        : generator_.status();
}

absl::StatusOr<Generator*> CausalPredictor::generator() {
  RETURN_IF_ERROR(generator_.status());
  return generator_->get();
}

absl::StatusOr<std::vector<int32_t>> CausalPredictor::Encode(
    const v1::PredictRow& row, bool pseudo_loss, bool* truncated) {
  if (row.numbers_size() > 0 || row.categories_size() > 0) {
    return absl::InvalidArgumentError("the model takes text");
  }
  if (row.has_text_pair()) {
    return absl::InvalidArgumentError("text_pair: the model takes one text");
  }
  if (!IsValidUtf8(row.text())) {
    return absl::InvalidArgumentError("text: not UTF-8");
  }
  std::vector<int32_t> ids;
  tokenizer_->Encode(row.text(), &ids);
  if (ids.size() < (pseudo_loss ? 2 : 1)) {
    return absl::InvalidArgumentError(
        pseudo_loss ? "text: no token follows another" : "text: no token");
  }
  const auto most = static_cast<size_t>(parts_.config.length);
  *truncated = ids.size() > most;
  if (*truncated && pseudo_loss) ids.resize(most);
  if (*truncated) {
    ids.erase(ids.begin(), ids.end() - static_cast<int64_t>(most));
  }
  return ids;
}

absl::Status CausalPredictor::Run(const v1::PredictRequest& request,
                                  const std::vector<int32_t>& ids,
                                  v1::Prediction* prediction) {
  Batch batch;
  ClearBatch(1, parts_.config.length, tokenizer_->special_tokens().pad, &batch);
  std::copy(ids.begin(), ids.end(), batch.ids.begin());
  std::fill_n(batch.mask.begin(), ids.size(), 1.0f);
  const auto last = static_cast<int32_t>(ids.size()) - 1;
  const int32_t first = request.pseudo_loss() ? 0 : last;
  const int32_t end = request.pseudo_loss() ? last : last + 1;
  for (int32_t place = first; place < end; ++place) {
    batch.label_rows.push_back(place);
    batch.labels.push_back(0);  // only logits are looked at
  }
  ASSIGN_OR_RETURN(const std::vector<float> logits,
                   parts_.scorer->Logits(batch));
  const int64_t width = parts_.config.vocabulary;
  const auto at = [&](int64_t place) {
    return absl::Span<const float>(logits.data() + place * width, width);
  };
  if (!request.pseudo_loss()) {
    v1::FilledMask* mask = prediction->add_masks();
    mask->set_position(last + 1);
    FillChoices(request, at(0), *tokenizer_, mask);
    return absl::OkStatus();
  }
  double sum = 0;
  for (int32_t place = 0; place < last; ++place) {
    sum += LogSumExp(at(place)) - at(place)[ids[place + 1]];
  }
  prediction->set_loss(sum / last);
  return absl::OkStatus();
}

absl::Status CausalPredictor::Answer(const v1::PredictRequest& request,
                                     v1::PredictResponse* response) {
  for (const v1::PredictRow& row : request.rows()) {
    v1::Prediction* prediction = response->add_predictions();
    bool truncated = false;
    const auto ids = Encode(row, request.pseudo_loss(), &truncated);
    if (!ids.ok()) {
      prediction->set_error(std::string(ids.status().message()));
      continue;
    }
    prediction->set_truncated(truncated);
    RETURN_IF_ERROR(Run(request, *ids, prediction));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
