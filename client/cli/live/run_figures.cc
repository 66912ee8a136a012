// Applies jobs and events to the newest figures.

#include "client/cli/live/run_figures.h"

#include <algorithm>

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
      if (metrics_.has_validation_auc()) {
        validation_clicks_ = {metrics_.validation_auc(),
                              metrics_.validation_normalized_entropy()};
      }
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

std::optional<ClickFigures> RunFigures::validation_clicks() const {
  if (result_ && result_->has_validation_auc()) {
    return ClickFigures{result_->validation_auc(),
                        result_->validation_normalized_entropy()};
  }
  return validation_clicks_;
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
