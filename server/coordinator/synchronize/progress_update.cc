// Turns trainer events into a job's progress and events.
#include "server/coordinator/synchronize/progress_update.h"

namespace comera::server {
namespace {

void FromMetrics(const v1::StepMetrics& metrics, v1::JobProgress* progress) {
  progress->set_step(metrics.step());
  if (metrics.total_steps() > 0) {
    progress->set_total_steps(metrics.total_steps());
  }
  progress->set_stage(metrics.stage());
  progress->set_loss(metrics.smoothed_loss() != 0 ? metrics.smoothed_loss()
                                                  : metrics.loss());
  if (metrics.has_validation_loss()) {
    progress->set_validation_loss(metrics.validation_loss());
    progress->set_has_validation_loss(true);
  }
  progress->set_size_parameters(metrics.size_parameters());
  progress->set_size_bytes(metrics.size_bytes());
  progress->set_samples_per_second(metrics.samples_per_second());
  if (metrics.has_eta()) {
    *progress->mutable_eta() = metrics.eta();
  } else {
    progress->clear_eta();
  }
  progress->set_target_loss(metrics.target_loss());
  progress->set_target_size_parameters(metrics.target_size_parameters());
}

}  // namespace

bool UpdateProgress(const v1::TrainerEvent& event, v1::JobProgress* progress) {
  switch (event.event_case()) {
    case v1::TrainerEvent::kMetrics:
      FromMetrics(event.metrics(), progress);
      return true;
    case v1::TrainerEvent::kRunInfo:
      progress->set_total_steps(event.run_info().total_steps());
      progress->set_step(event.run_info().resumed_from_step());
      progress->set_dense_parameters(event.run_info().dense_parameters());
      if (progress->size_parameters() == 0) {
        progress->set_size_parameters(event.run_info().initial_parameters());
        progress->set_size_bytes(4 * event.run_info().initial_parameters());
      }
      return true;
    case v1::TrainerEvent::kResult:
      progress->set_step(event.result().step());
      // Programs of users' own may end without any validation.
      if (event.result().validation_loss() != 0 ||
          event.result().pareto_front_size() > 0) {
        progress->set_validation_loss(event.result().validation_loss());
        progress->set_has_validation_loss(true);
      }
      progress->set_size_parameters(event.result().size_parameters());
      progress->set_size_bytes(event.result().size_bytes());
      progress->clear_eta();
      return true;
    case v1::TrainerEvent::kHeartbeat:
      if (progress->stage() == event.heartbeat().stage()) return false;
      progress->set_stage(event.heartbeat().stage());
      return true;
    default:
      return false;
  }
}

std::optional<v1::JobEvent> ToJobEvent(const v1::TrainerEvent& event) {
  v1::JobEvent result;
  switch (event.event_case()) {
    case v1::TrainerEvent::kRunInfo:
      *result.mutable_run_info() = event.run_info();
      return result;
    case v1::TrainerEvent::kMetrics:
      *result.mutable_metrics() = event.metrics();
      return result;
    case v1::TrainerEvent::kRankSnapshot:
      *result.mutable_rank_snapshot() = event.rank_snapshot();
      return result;
    case v1::TrainerEvent::kParetoPoint:
      *result.mutable_pareto_point() = event.pareto_point();
      return result;
    case v1::TrainerEvent::kCheckpoint:
      if (event.checkpoint().snapshot()) return std::nullopt;
      *result.mutable_checkpoint() = event.checkpoint();
      return result;
    case v1::TrainerEvent::kResult:
      *result.mutable_result() = event.result();
      return result;
    default:
      return std::nullopt;
  }
}

}  // namespace comera::server
