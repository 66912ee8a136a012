// Loads an exported model and chooses its kind of predictor.
#include "worker/trainer/predict/predictor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/predict/causal_predictor.h"
#include "worker/trainer/predict/click_predictor.h"
#include "worker/trainer/predict/predictor_parts.h"
#include "worker/trainer/predict/text_predictor.h"

namespace comera::trainer {
namespace {

const char* FamilyName(v1::ModelSpec::Family family) {
  switch (family) {
    case v1::ModelSpec::ENCODER_CLASSIFIER:
      return "encoder_classifier";
    case v1::ModelSpec::MASKED_LM:
      return "masked_lm";
    case v1::ModelSpec::CAUSAL_LM:
      return "causal_lm";
    default:
      return "dlrm";
  }
}

// The number of rows for a model whose activations are also planned for going
// back.
int64_t GoodBatch(const ModelConfig& config) {
  if (config.family == v1::ModelSpec::DLRM) return 256;
  constexpr int64_t kMaxBytes = int64_t{512} << 20;
  const auto row = static_cast<double>(config.length) *
                   static_cast<double>(config.hidden) *
                   static_cast<double>(2 * config.layers + 4) * sizeof(float);
  return std::clamp(static_cast<int64_t>(kMaxBytes / row), int64_t{1},
                    int64_t{32});
}

v1::ServedModel Describe(const ModelConfig& config, const InputFormat& format) {
  v1::ServedModel served;
  served.set_family(FamilyName(config.family));
  for (const std::string& label : format.labels) served.add_labels(label);
  for (const std::string& field : format.fields) served.add_fields(field);
  served.set_fields_joined(format.fields_joined);
  served.set_label_field(format.label_field);
  served.set_max_rows(kMaxPredictRows);
  if (config.family == v1::ModelSpec::DLRM) {
    served.set_classes(2);
    served.set_numbers(static_cast<int32_t>(config.clicks.dense_features));
    served.set_categories(static_cast<int32_t>(config.clicks.tables()));
    served.set_criteo(format.clicks == "criteo");
    return served;
  }
  served.set_max_length(static_cast<int32_t>(config.length));
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    served.set_classes(static_cast<int32_t>(config.classes));
  }
  return served;
}

int64_t CountOf(absl::string_view token, absl::string_view text) {
  int64_t count = 0;
  for (size_t at = 0;
       !token.empty() && (at = text.find(token, at)) != absl::string_view::npos;
       at += token.size()) {
    ++count;
  }
  return count;
}

}  // namespace

absl::StatusOr<PredictorParts> OpenModel(const std::string& directory,
                                         const PredictOptions& options) {
  ASSIGN_OR_RETURN(ImportedModel model, ImportModel(directory));
  ASSIGN_OR_RETURN(const InputFormat format, LoadInputFormat(directory));
  const bool classifier =
      model.config.family == v1::ModelSpec::ENCODER_CLASSIFIER;
  if (classifier &&
      static_cast<int64_t>(format.labels.size()) > model.config.classes) {
    return absl::DataLossError(absl::StrCat(
        directory, ": ", format.labels.size(), " labels for a model of ",
        model.config.classes, " classes"));
  }
  PredictorParts parts;
  parts.served = Describe(model.config, format);
  ASSIGN_OR_RETURN(parts.backend, MakeBackend(options.backend));
  std::string why;
  model.config.pad_batches = false;
  model.config.machine =
      LoadCalibration(options.cache_dir, MachineOf(options.backend), &why);
  ASSIGN_OR_RETURN(parts.scorer, Scorer::Create(model.config, model.parameters,
                                                options.batch_size > 0
                                                    ? options.batch_size
                                                    : GoodBatch(model.config),
                                                parts.backend.get()));
  parts.config = std::move(model.config);
  return parts;
}

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Open(
    const std::string& directory, const Options& options) {
  ASSIGN_OR_RETURN(PredictorParts parts, OpenModel(directory, options));
  if (parts.config.family == v1::ModelSpec::DLRM) {
    return ClickPredictor::Create(directory, std::move(parts));
  }
  const bool tells_tokens =
      parts.config.family != v1::ModelSpec::ENCODER_CLASSIFIER;
  const int64_t vocabulary = tells_tokens ? parts.config.vocabulary : 0;
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                   LoadSavedTokenizer(directory));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Predictor> predictor,
      parts.config.family == v1::ModelSpec::CAUSAL_LM
          ? CausalPredictor::Create(std::move(parts), std::move(tokenizer))
          : TextPredictor::Create(std::move(parts), std::move(tokenizer)));
  predictor->vocabulary_ = vocabulary;
  return predictor;
}

absl::StatusOr<Generator*> Predictor::generator() {
  return absl::InvalidArgumentError(
      absl::StrCat("generate: for causal_lm, not ", served_.family()));
}

absl::Status Predictor::CheckAnswer(const v1::PredictRequest& request) const {
  if (request.pseudo_loss() || vocabulary_ == 0) return absl::OkStatus();
  // A choice takes as much of the answer as a few logits.
  constexpr int64_t kLogitsOfChoice = 5;
  const int64_t choices = request.top_k() == 0 ? 5 : request.top_k();
  const int64_t most =
      kMaxAnswerLogits /
      (request.logits() ? vocabulary_ : kLogitsOfChoice * choices);
  int64_t places = 0;
  for (const v1::PredictRow& row : request.rows()) {
    // A causal LM tells those of one token; what is cut tells none.
    places += served_.mask_token().empty()
                  ? 1
                  : std::min<int64_t>(
                        served_.max_length(),
                        CountOf(served_.mask_token(), row.text()) +
                            CountOf(served_.mask_token(), row.text_pair()));
  }
  if (places <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      request.logits() ? "logits" : "top_k", ": of ", places,
      " tokens in one request, more than ", most, ": ask with fewer rows"));
}

absl::StatusOr<v1::PredictResponse> Predictor::Predict(
    const v1::PredictRequest& request) {
  if (request.rows_size() > kMaxPredictRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows: ", request.rows_size(), ", more than ", kMaxPredictRows));
  }
  if (request.top_k() < 0 || request.top_k() > kMaxTopK) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_k: ", request.top_k(), " is not in 0 to ", kMaxTopK));
  }
  if (request.pseudo_loss() && served_.family() != "masked_lm" &&
      served_.family() != "causal_lm") {
    return absl::InvalidArgumentError(absl::StrCat(
        "pseudo_loss: for masked_lm and causal_lm, not ", served_.family()));
  }
  RETURN_IF_ERROR(CheckAnswer(request));
  v1::PredictResponse response;
  RETURN_IF_ERROR(Answer(request, &response));
  return response;
}

}  // namespace comera::trainer
