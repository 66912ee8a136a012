// Computes the validation loss of a model over a gang.
#include "worker/trainer/loop/validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/area_under_curve.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

constexpr int kHashPieces = 8;

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

// Log-odds and labels of all validation samples of a click log: 0 where they
// are another member's, so that a sum over the gang fills them in exactly.
struct ClickScores {
  std::vector<float> logits;
  std::vector<float> labels;
};

// `scores` may be null.
absl::StatusOr<LossTotals> TotalsOfShare(const TrainingData& data,
                                         int64_t first, int64_t end,
                                         const kernels::StepState* device_state,
                                         ModelPlan& plan, ClickScores* scores,
                                         Activity* activity) {
  LossTotals totals;
  Batch batch;
  while (first < end) {
    const int64_t count = std::min(plan.batch_size(), end - first);
    RETURN_IF_ERROR(data.ValidationBatch(first, count, &batch));
    RETURN_IF_ERROR(plan.model().Forward(batch, plan.parameters().data,
                                         /*train=*/false, device_state));
    ASSIGN_OR_RETURN(const LossTotals of_batch, plan.model().ReadLoss());
    totals.loss_sum += of_batch.loss_sum;
    totals.labels += of_batch.labels;
    totals.correct += of_batch.correct;
    if (scores != nullptr) {
      ASSIGN_OR_RETURN(const std::vector<float> logits,
                       plan.model().ReadLogits());
      std::copy(logits.begin(), logits.end(), scores->logits.begin() + first);
      std::copy(batch.labels.begin(), batch.labels.end(),
                scores->labels.begin() + first);
    }
    first += count;
    if (activity != nullptr) activity->CountWork();
  }
  return totals;
}

std::optional<ClickMetrics> MetricsOf(const ClickScores& scores, double loss) {
  const std::optional<double> auc =
      AreaUnderCurve(scores.logits, scores.labels);
  const std::optional<double> entropy = NormalizedEntropy(loss, scores.labels);
  if (!auc.has_value() || !entropy.has_value()) return std::nullopt;
  return ClickMetrics{*auc, *entropy};
}

}  // namespace

absl::StatusOr<ValidationResult> Validate(
    const TrainingData& data, int64_t samples,
    const kernels::StepState* device_state, ModelPlan& plan,
    collective::Communicator* communicator, Activity* activity) {
  const int world = communicator == nullptr ? 1 : communicator->world_size();
  const int member = communicator == nullptr ? 0 : communicator->rank();
  std::optional<ClickScores> scores;
  if (data.clicks() != nullptr) {
    scores.emplace();
    scores->logits.resize(samples);
    scores->labels.resize(samples);
  }
  ASSIGN_OR_RETURN(LossTotals totals,
                   TotalsOfShare(data, samples * member / world,
                                 samples * (member + 1) / world, device_state,
                                 plan, scores ? &*scores : nullptr, activity));
  if (world > 1) {
    ASSIGN_OR_RETURN(const std::vector<float> parameters,
                     plan.Download(plan.parameters()));
    const std::array<float, kHashPieces> own = HashPieces(parameters);
    std::vector<float> sums = {static_cast<float>(totals.loss_sum),
                               static_cast<float>(totals.labels),
                               static_cast<float>(totals.correct)};
    sums.insert(sums.end(), own.begin(), own.end());
    RETURN_IF_ERROR(WithFailureClass(
        communicator->AllReduce(absl::MakeSpan(sums)), v1::COLLECTIVE_HANG));
    for (int i = 0; i < kHashPieces; ++i) {
      if (sums[3 + i] != own[i] * static_cast<float>(world)) {
        return absl::InternalError(absl::StrCat(
            "member ", member, ": parameters are not equal on all members"));
      }
    }
    totals = {sums[0], sums[1], sums[2]};
    if (scores) {
      for (std::vector<float>* values : {&scores->logits, &scores->labels}) {
        RETURN_IF_ERROR(
            WithFailureClass(communicator->AllReduce(absl::MakeSpan(*values)),
                             v1::COLLECTIVE_HANG));
      }
    }
  }
  if (totals.labels <= 0) {
    return absl::DataLossError("the validation samples hold no labels");
  }
  ValidationResult result;
  result.loss = totals.loss_sum / totals.labels;
  result.accuracy = totals.correct / totals.labels;
  if (scores && std::isfinite(result.loss)) {
    result.clicks = MetricsOf(*scores, result.loss);
  }
  return result;
}

}  // namespace comera::trainer
