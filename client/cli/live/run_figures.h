// Gathers what is known of a job from its events.
#ifndef COMERA_CLIENT_CLI_LIVE_RUN_FIGURES_H_
#define COMERA_CLIENT_CLI_LIVE_RUN_FIGURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "proto/target_quality.h"

namespace comera::client {

// The mean rank of the inner bonds of one class of layers, at step 0 and now.
struct ClassRanks {
  double initial = 0;
  double current = 0;
};

// The newest figures of a job. A value type.
class RunFigures {
 public:
  void Apply(const v1::Job& job);
  void Apply(const v1::JobEvent& event);

  const v1::Job& job() const { return job_; }
  v1::JobState state() const { return job_.state(); }
  bool has_metrics() const { return has_metrics_; }
  const v1::StepMetrics& metrics() const { return metrics_; }
  const std::optional<v1::RunInfo>& run_info() const { return run_info_; }
  const std::optional<v1::TrainingResult>& result() const { return result_; }
  std::optional<double> validation_loss() const;
  std::optional<double> validation_accuracy() const;
  // Only clicks have one.
  std::optional<double> normalized_entropy() const {
    return normalized_entropy_;
  }
  // Only causal language models have it.
  std::optional<double> bits_per_byte() const { return bits_per_byte_; }
  // The validation figure of this kind, as far as the job has it.
  std::optional<double> Quality(QualityKind kind) const;
  // What the target that is being approached, or else the last, asks for.
  TargetQuality target() const;
  // The ranks by class of layers.
  const std::map<std::string, ClassRanks>& ranks() const { return ranks_; }
  int64_t peak_memory_bytes() const { return peak_memory_bytes_; }
  // 0: not known.
  double energy_joules() const {
    return result_ && result_->energy_joules() > 0 ? result_->energy_joules()
                                                   : metrics_.energy_joules();
  }
  int64_t dropped_events() const { return dropped_events_; }

 private:
  void ApplyRanks(const v1::RankSnapshot& snapshot);
  // Takes the figures beside loss and accuracy from metrics or a result.
  template <typename Message>
  void ApplyFigures(const Message& message);

  v1::Job job_;
  v1::StepMetrics metrics_;
  bool has_metrics_ = false;
  std::optional<v1::RunInfo> run_info_;
  std::optional<v1::TrainingResult> result_;
  std::optional<double> validation_loss_;
  std::optional<double> validation_accuracy_;
  std::optional<double> auc_, f1_, mcc_, normalized_entropy_, bits_per_byte_;
  std::map<std::string, ClassRanks> ranks_;
  int64_t peak_memory_bytes_ = 0;
  int64_t dropped_events_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_RUN_FIGURES_H_
