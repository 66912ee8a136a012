// Computes the figures of a model on held-out samples over a gang.
#include "worker/trainer/loop/validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/area_under_curve.h"
#include "common/classification_figures.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

constexpr int kHashPieces = 8;
// Fewer batches of a member say little about how much they differ.
constexpr int64_t kLeastBatches = 8;

// FNV-1a over 32-bit words, in 8-bit pieces: a float holds the sum of them over
// 65536 members exactly.
std::array<float, kHashPieces> HashPieces(const std::vector<float>& values) {
  uint64_t hash = 14695981039346656037u;
  for (float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 1099511628211u;
  }
  std::array<float, kHashPieces> pieces;
  for (float& piece : pieces) {
    piece = static_cast<float>(hash & 0xff);
    hash >>= 8;
  }
  return pieces;
}

// Reads samples [first, first + count) of what is evaluated.
using BatchReader = std::function<absl::Status(int64_t, int64_t, Batch*)>;

// What all members need to know of every sample: 0 where it is another
// member's, so that a sum over the gang fills it in exactly.
struct Predictions {
  explicit Predictions(int64_t samples) : values(3 * samples) {}

  float& label(int64_t sample) { return values[3 * sample]; }
  float& predicted(int64_t sample) { return values[3 * sample + 1]; }
  // The log-odds of class 1 out of two.
  float& score(int64_t sample) { return values[3 * sample + 2]; }
  int64_t size() const { return static_cast<int64_t>(values.size()) / 3; }

  std::vector<float> values;
};

// The sums that the mean loss and its error follow from. A group is a sample
// where that has one label, and otherwise a batch.
struct LossSums {
  double loss = 0, labels = 0, correct = 0;
  // The number of groups, and the sums of the squares of their losses and
  // labels, and of the products of both.
  double groups = 0, loss_squares = 0, label_squares = 0, products = 0;

  static constexpr int kCount = 7;
  std::array<double*, kCount> all() {
    return {&loss,         &labels,        &correct, &groups,
            &loss_squares, &label_squares, &products};
  }
  void AddGroup(double group_loss, double group_labels) {
    ++groups;
    loss_squares += group_loss * group_loss;
    label_squares += group_labels * group_labels;
    products += group_loss * group_labels;
  }
  // The standard error of the mean as that of a ratio of sums over groups.
  double Error() const {
    if (groups < 2) return std::numeric_limits<double>::infinity();
    const double mean = loss / labels;
    const double residuals =
        loss_squares - 2 * mean * products + mean * mean * label_squares;
    return std::sqrt(std::max(0.0, residuals) * groups / (groups - 1)) / labels;
  }
};

// The loss of a label, from the logits of its classes, or that of a click.
double LossOf(const float* logits, int64_t classes, int32_t label) {
  if (classes == 1) {
    const double wrong = label == 1 ? -logits[0] : logits[0];
    return std::max(wrong, 0.0) + std::log1p(std::exp(-std::abs(wrong)));
  }
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[k] - largest);
  return largest + std::log(sum) - logits[label];
}

// The logits of a label: 1 of clicks, 0 of masked tokens, whose vocabulary is
// too large to look at each.
int64_t LogitsPerLabel(const ModelConfig& config) {
  switch (config.family) {
    case v1::ModelSpec::DLRM:
      return 1;
    case v1::ModelSpec::ENCODER_CLASSIFIER:
      return config.classes;
    default:
      return 0;
  }
}

// Adds the samples of a batch from their logits.
void AddSamples(const std::vector<float>& logits, const Batch& batch,
                int64_t classes, int64_t first, Predictions* predictions,
                LossSums* sums) {
  for (int64_t i = 0; i < static_cast<int64_t>(batch.labels.size()); ++i) {
    const float* const at = logits.data() + i * classes;
    const int32_t label = batch.labels[i];
    sums->AddGroup(LossOf(at, classes, label), 1);
    predictions->label(first + i) = static_cast<float>(label);
    if (classes == 1) {
      predictions->score(first + i) = at[0];
      continue;
    }
    predictions->predicted(first + i) =
        static_cast<float>(std::max_element(at, at + classes) - at);
    if (classes == 2) predictions->score(first + i) = at[1] - at[0];
  }
}

// `predictions` is null for masked tokens.
absl::StatusOr<LossSums> SumsOfShare(const BatchReader& read, int64_t first,
                                     int64_t end,
                                     const kernels::StepState* device_state,
                                     ModelPlan& plan, Predictions* predictions,
                                     Activity* activity) {
  const int64_t classes = LogitsPerLabel(plan.config());
  int64_t size = plan.batch_size();
  if (predictions == nullptr) {
    size = std::clamp<int64_t>((end - first) / kLeastBatches, 1, size);
  }
  LossSums sums;
  Batch batch;
  while (first < end) {
    const int64_t count = std::min(size, end - first);
    RETURN_IF_ERROR(read(first, count, &batch));
    RETURN_IF_ERROR(plan.model().Forward(batch, plan.parameters().data,
                                         /*train=*/false, device_state));
    ASSIGN_OR_RETURN(const LossTotals of_batch, plan.model().ReadLoss());
    sums.loss += of_batch.loss_sum;
    sums.labels += of_batch.labels;
    sums.correct += of_batch.correct;
    if (predictions != nullptr) {
      ASSIGN_OR_RETURN(const std::vector<float> logits,
                       plan.model().ReadLogits());
      AddSamples(logits, batch, classes, first, predictions, &sums);
    } else {
      sums.AddGroup(of_batch.loss_sum, of_batch.labels);
    }
    first += count;
    if (activity != nullptr) activity->CountWork();
  }
  return sums;
}

// Sums over the gang, and compares the parameters of its members.
absl::Status SumOverGang(collective::Communicator& gang, ModelPlan& plan,
                         LossSums* sums, Predictions* predictions) {
  ASSIGN_OR_RETURN(const std::vector<float> parameters,
                   plan.Download(plan.parameters()));
  const std::array<float, kHashPieces> own = HashPieces(parameters);
  std::vector<float> values;
  for (const double* const sum : sums->all()) {
    values.push_back(static_cast<float>(*sum));
  }
  values.insert(values.end(), own.begin(), own.end());
  RETURN_IF_ERROR(WithFailureClass(gang.AllReduce(absl::MakeSpan(values)),
                                   v1::COLLECTIVE_HANG));
  const auto world = static_cast<float>(gang.world_size());
  for (int i = 0; i < kHashPieces; ++i) {
    if (values[LossSums::kCount + i] != own[i] * world) {
      return absl::InternalError(absl::StrCat(
          "member ", gang.rank(), ": parameters are not equal on all members"));
    }
  }
  const auto all = sums->all();
  for (int i = 0; i < LossSums::kCount; ++i) *all[i] = values[i];
  if (predictions == nullptr) return absl::OkStatus();
  return WithFailureClass(gang.AllReduce(absl::MakeSpan(predictions->values)),
                          v1::COLLECTIVE_HANG);
}

// The figures that are no means.
void FillFigures(Predictions& predictions, const ModelConfig& config,
                 ValidationResult* result) {
  std::vector<float> scores, labels;
  std::vector<int32_t> truths, predicted;
  for (int64_t i = 0; i < predictions.size(); ++i) {
    scores.push_back(predictions.score(i));
    labels.push_back(predictions.label(i));
    truths.push_back(static_cast<int32_t>(predictions.label(i)));
    predicted.push_back(static_cast<int32_t>(predictions.predicted(i)));
  }
  const int64_t classes = LogitsPerLabel(config);
  if (classes <= 2) result->auc = AreaUnderCurveEstimate(scores, labels);
  if (classes == 1) {
    result->normalized_entropy = NormalizedEntropy(result->loss, labels);
    return;
  }
  result->f1 = F1Score(truths, predicted, static_cast<int32_t>(classes));
  result->mcc =
      MatthewsCorrelation(truths, predicted, static_cast<int32_t>(classes));
}

absl::StatusOr<ValidationResult> Evaluate(
    const BatchReader& read, int64_t samples,
    const kernels::StepState* device_state, ModelPlan& plan,
    collective::Communicator* communicator, Activity* activity) {
  const int world = communicator == nullptr ? 1 : communicator->world_size();
  const int member = communicator == nullptr ? 0 : communicator->rank();
  std::optional<Predictions> predictions;
  if (LogitsPerLabel(plan.config()) > 0) predictions.emplace(samples);
  Predictions* const kept = predictions ? &*predictions : nullptr;
  ASSIGN_OR_RETURN(LossSums sums,
                   SumsOfShare(read, samples * member / world,
                               samples * (member + 1) / world, device_state,
                               plan, kept, activity));
  if (world > 1) {
    RETURN_IF_ERROR(SumOverGang(*communicator, plan, &sums, kept));
  }
  if (sums.labels <= 0) {
    return absl::DataLossError("the samples hold no labels");
  }
  ValidationResult result;
  result.loss = sums.loss / sums.labels;
  result.accuracy = sums.correct / sums.labels;
  result.labels = sums.labels;
  if (!std::isfinite(result.loss)) return result;
  result.loss_error = sums.Error();
  if (kept != nullptr) FillFigures(*kept, plan.config(), &result);
  return result;
}

}  // namespace

absl::StatusOr<ValidationResult> Validate(
    const TrainingData& data, int64_t samples,
    const kernels::StepState* device_state, ModelPlan& plan,
    collective::Communicator* communicator, Activity* activity) {
  return Evaluate(
      [&data](int64_t first, int64_t count, Batch* batch) {
        return data.ValidationBatch(first, count, batch);
      },
      samples, device_state, plan, communicator, activity);
}

absl::StatusOr<ValidationResult> EvaluateTestSet(
    const TrainingData& data, const kernels::StepState* device_state,
    ModelPlan& plan, collective::Communicator* communicator,
    Activity* activity) {
  return Evaluate(
      [&data](int64_t first, int64_t count, Batch* batch) {
        return data.TestBatch(first, count, batch);
      },
      data.test_samples(), device_state, plan, communicator, activity);
}

}  // namespace comera::trainer
