// Measures an exported model on labelled data.
#include "worker/trainer/predict/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/area_under_curve.h"
#include "common/classification_figures.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/predict/predictor_parts.h"
#include "worker/trainer/predict/softmax.h"

namespace comera::trainer {
namespace {

// Logits of one pass: 64 MiB.
constexpr int64_t kMaxLogits = int64_t{1} << 24;

absl::Status CheckData(const TrainingData& data, const ModelConfig& config) {
  if (const ClickShape* shape = data.clicks(); shape != nullptr) {
    if (shape->dense_features == config.clicks.dense_features &&
        shape->table_rows == config.clicks.table_rows) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "data: their columns or dictionaries are not those that the model was "
        "trained on");
  }
  if (data.vocabulary_size() == config.vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data: a vocabulary of ", data.vocabulary_size(),
                   " tokens, the model's has ", config.vocabulary));
}

// Labels that the job leaves open are the model's, not those of other data.
absl::Status FitLabels(const std::string& directory, v1::DataSpec* data) {
  if (!data->has_labelled_text() || !data->labelled_text().labels().empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const InputFormat format, LoadInputFormat(directory));
  for (const std::string& label : format.labels) {
    data->mutable_labelled_text()->add_labels(label);
  }
  return absl::OkStatus();
}

// The job's data as the model reads them.
absl::Status FitSpec(const std::string& directory, const ModelConfig& config,
                     v1::JobSpec* spec) {
  if (spec->model().family() != config.family) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.family: ", v1::ModelSpec::Family_Name(spec->model().family()),
        ", but the model's is ", v1::ModelSpec::Family_Name(config.family)));
  }
  spec->mutable_training()->clear_phases();
  if (config.family == v1::ModelSpec::DLRM) return absl::OkStatus();
  spec->mutable_data()->set_max_length(static_cast<int32_t>(config.length));
  spec->mutable_model()->set_segments(static_cast<int32_t>(config.segments));
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    spec->mutable_model()->set_classes(static_cast<int32_t>(config.classes));
    RETURN_IF_ERROR(FitLabels(directory, spec->mutable_data()));
  }
  ASSIGN_OR_RETURN(*spec->mutable_data()->mutable_tokenizer(),
                   FindSavedTokenizer(directory));
  return absl::OkStatus();
}

struct Totals {
  double loss = 0;
  int64_t labels = 0;
  int64_t correct = 0;
  // Log-odds and labels of clicks.
  std::vector<float> scores, truths;
  // True and predicted classes, as in common/classification_figures.h.
  std::vector<int32_t> classes, predicted;

  void AddClick(float logit, int32_t label) {
    const double wrong = label == 1 ? -logit : logit;
    loss += std::max(wrong, 0.0) + std::log1p(std::exp(-std::abs(wrong)));
    correct += (logit > 0) == (label == 1);
    ++labels;
    scores.push_back(logit);
    truths.push_back(static_cast<float>(label));
  }
  void AddClass(absl::Span<const float> logits, int32_t label) {
    loss += LogSumExp(logits) - logits[label];
    const auto best = static_cast<int32_t>(
        std::max_element(logits.begin(), logits.end()) - logits.begin());
    correct += best == label;
    ++labels;
    classes.push_back(label);
    predicted.push_back(best);
    if (logits.size() == 2) {
      scores.push_back(logits[1] - logits[0]);
      truths.push_back(static_cast<float>(label));
    }
  }
};

}  // namespace

absl::StatusOr<v1::Evaluation> Evaluate(const std::string& directory,
                                        v1::JobSpec spec,
                                        const EvaluateOptions& options) {
  ASSIGN_OR_RETURN(PredictorParts parts, OpenModel(directory, options.predict));
  const ModelConfig& config = parts.config;
  RETURN_IF_ERROR(FitSpec(directory, config, &spec));
  TrainingData::Options data_options;
  data_options.cache_dir = options.predict.cache_dir;
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingData> data,
                   OpenTrainingData(spec, data_options));
  RETURN_IF_ERROR(CheckData(*data, config));

  const bool clicks = config.family == v1::ModelSpec::DLRM;
  const bool masked_lm = config.family == v1::ModelSpec::MASKED_LM;
  const int64_t width = clicks      ? 1
                        : masked_lm ? config.vocabulary
                                    : config.classes;
  int64_t rows = parts.scorer->batch_size();
  if (masked_lm) {
    rows = std::clamp<int64_t>(kMaxLogits / (config.length * width), 1, rows);
  }
  const int64_t all = data->validation_samples();
  const int64_t samples =
      options.samples == 0 ? all : std::min(options.samples, all);
  Totals totals;
  Batch batch;
  for (int64_t first = 0; first < samples; first += batch.size) {
    RETURN_IF_ERROR(
        data->ValidationBatch(first, std::min(rows, samples - first), &batch));
    ASSIGN_OR_RETURN(const std::vector<float> logits,
                     parts.scorer->Logits(batch));
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      const float* at = logits.data() + static_cast<int64_t>(i) * width;
      if (clicks) {
        totals.AddClick(*at, batch.labels[i]);
      } else {
        totals.AddClass({at, static_cast<size_t>(width)}, batch.labels[i]);
      }
    }
  }
  if (totals.labels == 0) {
    return absl::DataLossError("the validation samples hold no labels");
  }
  v1::Evaluation evaluation;
  const auto labels = static_cast<double>(totals.labels);
  evaluation.set_loss(totals.loss / labels);
  evaluation.set_accuracy(static_cast<double>(totals.correct) / labels);
  evaluation.set_samples(samples);
  evaluation.set_labels(totals.labels);
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    const auto count = static_cast<int32_t>(config.classes);
    if (const auto f1 = F1Score(totals.classes, totals.predicted, count)) {
      evaluation.set_f1(f1->value);
    }
    if (const auto mcc =
            MatthewsCorrelation(totals.classes, totals.predicted, count)) {
      evaluation.set_mcc(mcc->value);
    }
  }
  if (!totals.scores.empty()) {
    if (const auto auc = AreaUnderCurve(totals.scores, totals.truths)) {
      evaluation.set_auc(*auc);
    }
    if (const auto entropy =
            NormalizedEntropy(evaluation.loss(), totals.truths)) {
      evaluation.set_normalized_entropy(*entropy);
    }
  }
  return evaluation;
}

}  // namespace comera::trainer
