// Compares models by the targets of a late stage.

#include "proto/sweep/search_target.h"

#include <algorithm>
#include <cmath>

namespace comera {
namespace {

constexpr int64_t kParameterBytes = sizeof(float);

}  // namespace

bool SearchTarget::higher_is_better() const {
  return metric != v1::LateStage::kTargetLoss &&
         metric != v1::LateStage::kTargetPerplexity;
}

int64_t SearchTarget::SizeOf(int64_t size, int64_t file_bytes) const {
  if (bytes == 0 || file_bytes <= bytes) return size;
  return std::max(size, (file_bytes + kParameterBytes - 1) / kParameterBytes);
}

bool SearchTarget::MeetsQuality(double value) const {
  return !has_quality || Shortfall(value) <= 0;
}

double SearchTarget::Shortfall(double value) const {
  if (!has_quality) return 0;
  if (!std::isfinite(value)) return 1e9;
  const double missing = higher_is_better() ? quality - value : value - quality;
  return std::max(0.0, missing / std::max(1e-12, std::abs(quality)));
}

std::string SearchTarget::Name() const {
  switch (metric) {
    case v1::LateStage::kTargetAccuracy:
      return "accuracy";
    case v1::LateStage::kTargetF1:
      return "F1";
    case v1::LateStage::kTargetMcc:
      return "MCC";
    case v1::LateStage::kTargetAuc:
      return "AUC";
    case v1::LateStage::kTargetPerplexity:
      return "perplexity";
    default:
      return "loss";
  }
}

SearchTarget SearchTargetOf(const v1::LateStage& late) {
  SearchTarget target;
  target.metric = late.target_quality_case();
  target.has_quality = true;
  switch (late.target_quality_case()) {
    case v1::LateStage::kTargetLoss:
      target.quality = late.target_loss();
      break;
    case v1::LateStage::kTargetAccuracy:
      target.quality = late.target_accuracy();
      break;
    case v1::LateStage::kTargetF1:
      target.quality = late.target_f1();
      break;
    case v1::LateStage::kTargetMcc:
      target.quality = late.target_mcc();
      break;
    case v1::LateStage::kTargetAuc:
      target.quality = late.target_auc();
      break;
    case v1::LateStage::kTargetPerplexity:
      target.quality = late.target_perplexity();
      break;
    case v1::LateStage::TARGET_QUALITY_NOT_SET:
      target.metric = v1::LateStage::kTargetLoss;
      target.has_quality = false;
      break;
  }
  if (late.has_target_parameters()) {
    target.parameters = late.target_parameters();
  } else if (late.has_target_bytes()) {
    target.bytes = late.target_bytes();
    target.parameters = target.bytes / kParameterBytes;
  }
  return target;
}

}  // namespace comera
