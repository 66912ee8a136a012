#ifndef COMERA_WORKER_TRAINER_LOOP_STEP_REPORTER_H_
#define COMERA_WORKER_TRAINER_LOOP_STEP_REPORTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "worker/trainer/loop/step_work.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/initial_weights.h"
#include "worker/trainer/state/pareto_front.h"
#include "worker/trainer/state/training_state.h"
#include "worker/trainer/step/step_figures.h"

namespace comera::trainer {

// Reports a run as events: what it is, how its steps go, and how it ends. Only
// member 0 reports; on the others the calls do nothing.
//
// Life cycle: MeasureFreeMemory before the model takes any; Begin once the
// first step is known; StartClock right before it. Not thread-safe.
class StepReporter {
 public:
  // The objects behind the pointers must outlive this.
  StepReporter(const TrainerOptions* options, const TrainingSchedule* schedule,
               const TrainingProgress* progress, TrainedModel* model);

  // Device memory is reported from here on, if the options ask for it.
  absl::Status MeasureFreeMemory();
  // The errors of a warm start, for the run info.
  void set_initial_errors(
      std::vector<InitialWeightsReport::LayerError> errors) {
    initial_errors_ = std::move(errors);
  }
  // This attempt goes on after so many steps.
  void Begin(int64_t first_step);
  // Throughput is measured from here on.
  void StartClock();

  void ReportRunInfo();
  // The ranks of all layers.
  absl::Status ReportRanks();
  void ReportRanks(const ModelConfig& config,
                   const std::vector<float>& parameters);
  // `validated`: with the figures of the last validation.
  void ReportMetrics(const StepFigures& figures, bool validated);
  // Whether a step's metrics are due even without a validation.
  bool MetricsDue(const StepFigures& figures) const;
  void ReportParetoPoint(const ParetoCandidate& candidate);
  void ReportCheckpoint(int64_t size_bytes, bool snapshot);
  void ReportIncident(v1::FailureClass failure_class, const std::string& what);
  void ReportResult(const v1::TrainingResult& result);

 private:
  void Emit(const v1::TrainerEvent& event);
  // Updates the throughput by the steps since it was last done.
  void MeasureThroughput(const StepFigures& figures);
  void FillThroughput(int64_t step, v1::StepMetrics* metrics);
  // Sets the share of the device's peak that steps of this phase reach, if that
  // is known.
  void FillUtilisation(const TrainingPhase& phase, v1::StepMetrics* metrics);
  void FillMemory(v1::StepMetrics* metrics) const;

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  const TrainingProgress& progress_;
  TrainedModel& model_;
  int64_t free_bytes_at_start_ = 0;
  std::vector<InitialWeightsReport::LayerError> initial_errors_;
  int64_t first_step_ = 0;
  // Throughput was last measured here, after so many tokens.
  int64_t measured_step_ = 0;
  double measured_tokens_ = 0;
  absl::Time measured_time_;
  // The means since the measurement before.
  double step_seconds_ = 0;  // 0: not yet known
  double step_tokens_ = 0;   // 0: there are no tokens
  StepWork work_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_STEP_REPORTER_H_
