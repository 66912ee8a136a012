#ifndef COMERA_WORKER_TRAINER_STATE_TRAINING_STATE_H_
#define COMERA_WORKER_TRAINER_STATE_TRAINING_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "common/estimate.h"
#include "kernels/machine_speed.h"
#include "worker/trainer/late/size_control.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/state/pareto_front.h"

namespace comera::trainer {

// Inner ranks by key of ModelConfig::layers_by_name; factorised layers only.
using RankTable = std::map<std::string, std::vector<int64_t>>;

RankTable RanksOf(const ModelConfig& config);
// `config` with these ranks. DataLoss: other layers or numbers of bonds, or
// ranks larger than those of `config`.
absl::StatusOr<ModelConfig> WithRanks(ModelConfig config,
                                      const RankTable& ranks);

// Figures of one pass over samples that are held out.
struct ValidationResult {
  int64_t step = -1;  // after how many steps; -1: never
  double loss = 0;    // the mean
  double accuracy = 0;
  // Standard error of the loss: between samples, or between batches where a
  // sample has several labels.
  double loss_error = 0;
  // How many labels there were.
  double labels = 0;
  // Classifiers (common/classification_figures.h).
  std::optional<Estimate> f1;
  std::optional<Estimate> mcc;
  // Click logs and classifiers with two classes that both occur
  // (common/area_under_curve.h).
  std::optional<Estimate> auc;
  // Click logs that hold both clicks and non-clicks.
  std::optional<double> normalized_entropy;
  // These figures of a sample met the target, those of the whole validation set
  // did not.
  bool refuted = false;
};

// Exponential average of a series with its start-up bias removed.
struct LossAverage {
  static constexpr double kDecay = 0.95;
  double sum = 0;
  double weight = 0;

  void Add(double loss) {
    sum = kDecay * sum + (1 - kDecay) * loss;
    weight = kDecay * weight + (1 - kDecay);
  }
  double value() const { return weight > 0 ? sum / weight : 0; }
};

// How steadily training has gone so far (loop/divergence_guard.h).
struct Stability {
  // The factor on all learning rates, halved whenever training diverged, and
  // how often that was.
  double rate_factor = 1;
  int64_t lowered = 0;
  // The lowest validation loss below the baseline of a model that was not on
  // its way to a smaller size, and its step; -1: there was none.
  double lowest_loss = 0;
  int64_t lowest_step = -1;
  // Validations after the warm-up.
  int64_t validations = 0;
  // Whether some validation loss was below the baseline, and whether it was
  // said that none is.
  bool learned = false;
  bool warned = false;
};

// What the watch for spikes of the gradient norm has seen so far
// (loop/spike_watch.h).
struct SpikeState {
  // The exponential average of the norms of those steps that are judged and are
  // no spikes: their weighted sum, the sum of the weights, and their number.
  double sum = 0;
  double weight = 0;
  int64_t norms = 0;
  // Spikes since the last step that was none, and in all.
  int64_t in_row = 0;
  int64_t skipped = 0;

  double mean() const { return weight > 0 ? sum / weight : 0; }
  // The norms to come have nothing to do with those seen.
  void Restart() {
    sum = weight = 0;
    norms = in_row = 0;
  }
};

// How the approach to one target ended.
struct TargetOutcome {
  bool met = false;
  int64_t target_size = 0;  // parameters
  int64_t steps = 0;        // steps of the late stage
  ValidationResult validation;
  int64_t size = 0;
};

// Progress that is not parameters: equal on every member of a gang.
struct TrainingProgress {
  int64_t step = 0;  // steps done
  v1::Stage stage = v1::EARLY;
  LossAverage loss;
  // The size of the whole model, as exported, at step 0 and when the late stage
  // began.
  int64_t initial_size = 0;
  int64_t late_size = 0;
  // S0 in parameters, known from the start of the late stage on.
  int64_t target_size = 0;
  // The ends of the targets before the one that is being approached.
  std::vector<TargetOutcome> outcomes;
  ValidationResult validation;
  // Validation loss minus smoothed training loss at the last validation.
  double validation_gap = 0;
  // Whether loss and size of the target that is being approached were both met
  // by some model.
  bool targets_met = false;
  ParetoFront front;
  Stability stability;
  SpikeState spikes;
  // Labels of all steps so far, over all members. Exact: the batch of a step
  // has far fewer than 2^24, which is as far as the sum of it counts.
  int64_t label_tokens = 0;
  // After how many steps training.max_tokens ended the early stage; -1: it did
  // not.
  int64_t early_steps = -1;
  // What the job has used as far as it is known; 0: nothing is. Of the members,
  // the first alone knows it.
  double energy_joules = 0;

  // Steps spent on earlier targets.
  int64_t earlier_target_steps() const {
    int64_t steps = 0;
    for (const TargetOutcome& outcome : outcomes) steps += outcome.steps;
    return steps;
  }
  // Steps as if the target that is being approached were the only one: the
  // early stage's, then those of this approach. The training data follow them.
  int64_t own_step() const { return step - earlier_target_steps(); }

  // The smoothed training loss, corrected to what validation would give.
  double EstimatedValidationLoss() const {
    return loss.value() + validation_gap;
  }
};

// A model between two steps, on the host: its ranks, and in the layout that
// they give all parameters and the optimiser's state. A value type.
struct ModelState {
  RankTable ranks;
  std::vector<float> parameters;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
  std::vector<float> projectors;
};

// The end of the early stage, where every target's approach begins.
struct BranchPoint : ModelState {
  LossAverage loss;
  ValidationResult validation;
  double validation_gap = 0;
};

// The best state so far of one stage and target, to which training returns when
// it has diverged.
struct GoodState : BranchPoint {
  v1::Stage stage = v1::EARLY;
  int64_t step = 0;           // after which it was kept
  int64_t ended_targets = 0;  // before its own
  bool small_enough = false;  // its size is that of its target, or below
  int64_t size = 0;
  // Its validation loss; infinite if it was not validated.
  double kept_loss = 0;
  std::optional<SizeControl> control;
};

// The model that came nearest to the target that is being approached.
struct NearestModel {
  ValidationResult validation;
  int64_t size = 0;
  bool small_enough = false;
  // The objective of the late stage at the validation loss.
  double distance = 0;
  RankTable ranks;
  std::vector<float> parameters;
};

// Everything that the next step depends on, on the host. A value type.
struct TrainingState : ModelState {
  // Names the parts of the specification that the numbers depend on.
  std::string fingerprint;
  // Names the samples (data_digest.h); empty in checkpoints of earlier
  // versions.
  std::string data_digest;
  TrainingProgress progress;
  // The speed that contractions were planned with. Paths differ in rounding, so
  // the whole gang and every resumed run use that of the first run's member 0.
  kernels::MachineSpeed machine;
  std::optional<NearestModel> nearest;
  // In the late stage of the pareto objective only.
  std::optional<SizeControl> control;
  // Kept while other targets are to come.
  std::optional<BranchPoint> branch;
  // With training.on_divergence: lower_rate only.
  std::optional<GoodState> good;

  // A safetensors file; numbers come back bit-equal.
  absl::StatusOr<std::string> Serialize() const;
  // DataLoss: malformed, or parts that do not fit each other.
  static absl::StatusOr<TrainingState> Parse(const std::string& contents);
};

// Names the model, data, compression, objective, optimiser, training and
// initial weight fields of a specification with its defaults filled in; not the
// size of the gang.
std::string SpecFingerprint(const v1::JobSpec& spec);
// Returns what earlier versions stored for this specification on this machine:
// they counted the folder in which the machine keeps datasets.
std::string FormerSpecFingerprint(const v1::JobSpec& spec);
// Names the fields that the training state at the end of the early stage
// depends on: jobs that share it differ in their late stages only.
std::string EarlyStageFingerprint(const v1::JobSpec& spec);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_TRAINING_STATE_H_
