// Applies jobs and events to the newest figures.

#include "client/cli/live/run_figures.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "proto/job_targets.h"

namespace comera::client {

void RunFigures::Apply(const v1::Job& job) { job_ = job; }

void RunFigures::Apply(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kStateChange:
      job_.set_state(event.state_change().state());
      job_.set_outcome(event.state_change().outcome());
      job_.set_reason(event.state_change().reason());
      if (event.state_change().has_failure()) {
        *job_.mutable_failure() = event.state_change().failure();
      }
      job_.set_attempt(std::max(job_.attempt(), event.attempt()));
      break;
    case v1::JobEvent::kMetrics:
      metrics_ = event.metrics();
      has_metrics_ = true;
      peak_memory_bytes_ =
          std::max(peak_memory_bytes_, metrics_.peak_memory_bytes());
      if (metrics_.has_validation_loss()) {
        validation_loss_ = metrics_.validation_loss();
      }
      if (metrics_.has_validation_accuracy()) {
        validation_accuracy_ = metrics_.validation_accuracy();
      }
      ApplyFigures(metrics_);
      break;
    case v1::JobEvent::kRankSnapshot:
      ApplyRanks(event.rank_snapshot());
      break;
    case v1::JobEvent::kDropped:
      dropped_events_ += event.dropped().count();
      break;
    case v1::JobEvent::kRunInfo:
      run_info_ = event.run_info();
      break;
    case v1::JobEvent::kResult:
      result_ = event.result();
      ApplyFigures(*result_);
      break;
    default:
      break;
  }
}

std::optional<double> RunFigures::validation_loss() const {
  if (result_ && result_->validation_loss() > 0) {
    return result_->validation_loss();
  }
  if (!validation_loss_ && job_.progress().has_validation_loss()) {
    return job_.progress().validation_loss();
  }
  return validation_loss_;
}

std::optional<double> RunFigures::validation_accuracy() const {
  if (result_ && result_->validation_accuracy() > 0) {
    return result_->validation_accuracy();
  }
  return validation_accuracy_;
}

std::optional<double> RunFigures::Quality(QualityKind kind) const {
  switch (kind) {
    case v1::Target::kTargetAccuracy:
      return validation_accuracy();
    case v1::Target::kTargetF1:
      return f1_;
    case v1::Target::kTargetMcc:
      return mcc_;
    case v1::Target::kTargetAuc:
      return auc_;
    case v1::Target::kTargetPerplexity: {
      const std::optional<double> loss = validation_loss();
      if (!loss) return std::nullopt;
      return std::exp(*loss);
    }
    default:
      return validation_loss();
  }
}

TargetQuality RunFigures::target() const {
  const std::vector<v1::Target> targets =
      TargetsOf(job_.spec().objective().late());
  const auto last = static_cast<int>(targets.size()) - 1;
  const bool ended = result_.has_value() || !has_metrics_;
  return QualityOf(
      targets[ended ? last : std::clamp(metrics_.target_index(), 0, last)]);
}

template <typename Message>
void RunFigures::ApplyFigures(const Message& message) {
  if (message.has_validation_auc()) auc_ = message.validation_auc();
  if (message.has_validation_f1()) f1_ = message.validation_f1();
  if (message.has_validation_mcc()) mcc_ = message.validation_mcc();
  if (message.has_validation_normalized_entropy()) {
    normalized_entropy_ = message.validation_normalized_entropy();
  }
  if (message.has_validation_bits_per_byte()) {
    bits_per_byte_ = message.validation_bits_per_byte();
  }
}

void RunFigures::ApplyRanks(const v1::RankSnapshot& snapshot) {
  struct Sum {
    double initial = 0;
    double current = 0;
    int bonds = 0;
  };
  std::map<std::string, Sum> sums;
  for (const v1::LayerRanks& layer : snapshot.layers()) {
    Sum& sum = sums[layer.layer_class()];
    const int bonds = std::min(layer.initial_size(), layer.current_size());
    for (int i = 0; i < bonds; ++i) {
      sum.initial += layer.initial(i);
      sum.current += layer.current(i);
    }
    sum.bonds += bonds;
  }
  ranks_.clear();
  for (const auto& [name, sum] : sums) {
    if (sum.bonds == 0) continue;
    ranks_[name] = {sum.initial / sum.bonds, sum.current / sum.bonds};
  }
}

}  // namespace comera::client
