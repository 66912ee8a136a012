// Checks a job's general fields, and calls the checks of its parts.

#include "proto/validation/job_validation.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proto/job_defaults.h"
#include "proto/job_targets.h"
#include "proto/model_family.h"
#include "proto/model_size.h"
#include "proto/resource_names.h"
#include "proto/secret_words.h"
#include "proto/target_quality.h"
#include "proto/validation/compression_validation.h"
#include "proto/validation/data_validation.h"
#include "proto/validation/decoder_validation.h"
#include "proto/validation/dlrm_validation.h"
#include "proto/validation/message_checks.h"
#include "proto/validation/program_validation.h"
#include "proto/validation/spec_checker.h"
#include "proto/validation/target_validation.h"
#include "proto/validation/training_validation.h"

namespace comera {
namespace {

constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr double kMaxWeight = 1e9;
constexpr int kMaxLabels = 64;

void CheckModel(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::ModelSpec& model = spec.model();
  const bool classifier = model.family() == v1::ModelSpec::ENCODER_CLASSIFIER;
  const bool decoder = model.family() == v1::ModelSpec::CAUSAL_LM;
  if (decoder) {
    CheckDecoder(spec, check);
  } else {
    CheckNothingOfDecoders(spec, check);
  }
  if (model.family() == v1::ModelSpec::DLRM) {
    CheckDlrmModel(spec, check);
    return;
  }
  CheckNothingOfDlrm(spec, check);
  check.Require(model.family() != v1::ModelSpec::FAMILY_UNSPECIFIED,
                "model.family",
                "is missing: ENCODER_CLASSIFIER, MASKED_LM, CAUSAL_LM or DLRM");
  check.Range("model.layers", model.layers(), 1, 1000);
  check.Range("model.hidden", model.hidden(), 1, 65536);
  check.Range("model.ffn", model.ffn(), 1, 1 << 20);
  check.Range("model.heads", model.heads(), 1, 1024);
  check.Range("model.max_positions", model.max_positions(), 1, 65536);
  if (!decoder) check.Range("model.segments", model.segments(), 1, 1024);
  if (model.heads() > 0 && model.hidden() > 0) {
    check.Require(model.hidden() % model.heads() == 0, "model.heads",
                  absl::StrCat(model.heads(), " heads do not divide hidden ",
                               model.hidden()));
  }
  if (classifier) {
    // Labels that are found in the data are counted there.
    const bool found = spec.data().has_labelled_text() &&
                       spec.data().labelled_text().labels().empty() &&
                       model.classes() == 0;
    if (!found) check.Range("model.classes", model.classes(), 2, 65536);
  } else {
    check.Require(model.classes() == 0, "model.classes",
                  "is for ENCODER_CLASSIFIER only");
  }
  check.Require(!model.tie_output() || IsLanguageModel(model),
                "model.tie_output", "is for MASKED_LM and CAUSAL_LM only");
  check.Require(model.dropout() >= 0 && model.dropout() < 1, "model.dropout",
                "must be at least 0 and below 1");
  check.Require(!model.dropout_off() || model.dropout() == 0,
                "model.dropout_off", "contradicts a dropout above 0");
  check.Require(
      model.max_positions() < 1 ||
          model.max_positions() >= spec.data().max_length(),
      "model.max_positions",
      absl::StrCat("is below data.max_length ", spec.data().max_length()));
}

void CheckTarget(const v1::JobSpec& spec, const v1::Target& target,
                 const std::string& prefix, SpecChecker& check) {
  CheckTargetQuality(spec, target, prefix, check);
  switch (target.target_size_case()) {
    case v1::Target::kTargetBytes:
      check.Range(prefix + ".target_bytes", target.target_bytes(), 1,
                  kMaxBytes);
      break;
    case v1::Target::kTargetParameters:
      check.Range(prefix + ".target_parameters", target.target_parameters(), 1,
                  kMaxBytes);
      break;
    case v1::Target::kTargetRatio:
      check.Require(target.target_ratio() > 0 && target.target_ratio() <= 1,
                    prefix + ".target_ratio", "must be above 0 and at most 1");
      break;
    case v1::Target::TARGET_SIZE_NOT_SET:
      check.Add(prefix,
                "needs target_bytes, target_parameters or target_ratio");
      return;
  }
  check.Require(spec.objective().kind() != v1::ObjectiveSpec::REFERENCE ||
                    target.has_target_ratio(),
                prefix + ".target_ratio",
                "is what the REFERENCE objective needs as target size");
}

// The field of each target, as error messages name it.
std::string TargetField(const v1::LateStage& late, int index) {
  if (late.targets_size() == 0) return "objective.late";
  return absl::StrCat("objective.late.targets[", index, "]");
}

void CheckLate(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::LateStage& late = spec.objective().late();
  check.Range("objective.late.targets", late.targets_size(), 0, kMaxTargets,
              "targets");
  if (late.targets_size() > kMaxTargets) return;
  if (late.targets_size() > 0) {
    const QualityKind own = QualityOf(late).kind;
    check.Require(own == v1::Target::TARGET_QUALITY_NOT_SET,
                  absl::StrCat("objective.late.", QualityField(own)),
                  "excludes objective.late.targets");
    check.Require(late.target_size_case() == v1::LateStage::TARGET_SIZE_NOT_SET,
                  "objective.late.targets",
                  "excludes a target size of objective.late itself");
  }
  int index = 0;
  for (const v1::Target& target : TargetsOf(late)) {
    CheckTarget(spec, target, TargetField(late, index++), check);
  }
  check.Require(late.confidence() == 0 ||
                    (late.confidence() >= 0.5 && late.confidence() < 1),
                "objective.late.confidence",
                "must be 0, or at least 0.5 and below 1");
  check.Weight("objective.late.w_loss", late.w_loss(), kMaxWeight);
  check.Weight("objective.late.w_size", late.w_size(), kMaxWeight);
  check.NonNegative("objective.late.rho", late.rho(), kMaxWeight);
  check.Require(late.mode() != v1::LateStage::ACHIEVEMENT ||
                    spec.objective().kind() == v1::ObjectiveSpec::PARETO,
                "objective.late.mode",
                "achievement is for the objective PARETO: REFERENCE has the "
                "published rule");
  check.Range("objective.late.max_steps", late.max_steps(), 1, kMaxSteps);
}

void CheckObjective(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::ObjectiveSpec& objective = spec.objective();
  const bool only = objective.early().only();
  const int64_t least = objective.has_late() && !only ? 0 : 1;
  check.Range("objective.early.steps", objective.early().steps(), least,
              kMaxSteps);
  check.NonNegative("objective.early.gamma", objective.early().gamma(),
                    kMaxWeight);
  check.NonNegative("objective.early.beta", objective.early().beta(),
                    kMaxWeight);
  if (only) {
    // Jobs that continue from it ask for the checkpoint of the planned step.
    check.Require(spec.training().max_tokens() == 0, "training.max_tokens",
                  "excludes objective.early.only: others continue from the "
                  "last of objective.early.steps");
    check.Range("objective.late.max_steps", objective.late().max_steps(), 0,
                kMaxSteps);
  } else if (objective.has_late()) {
    CheckLate(spec, check);
  }
}

void CheckStartFrom(const v1::JobSpec& spec, SpecChecker& check) {
  if (!spec.has_start_from()) return;
  check.Require(spec.training().max_tokens() == 0, "training.max_tokens",
                "excludes start_from: the last step of the early stage is not "
                "known");
  const auto checkpoint = ParseCheckpointName(spec.start_from().checkpoint());
  check.Require(checkpoint.has_value(), "start_from.checkpoint",
                "must be jobs/{job}/checkpoints/{step}");
  if (!checkpoint || checkpoint->second != spec.objective().early().steps()) {
    // Another state than the end of the early stage goes on as its job did,
    // which the trainer checks.
    return;
  }
  check.Require(spec.objective().has_late() && !spec.objective().early().only(),
                "start_from",
                "is the end of the early stage: objective.late is missing");
}

// Muon steps on matrices as they are; GaLore, LoRA and LTE change what a step
// on a matrix is, and the published code knows AdamW alone.
void CheckOptimizerKind(const v1::JobSpec& spec, SpecChecker& check) {
  if (spec.optimizer().kind() != v1::OptimizerSpec::MUON) return;
  const v1::CompressionSpec::Method method = spec.compression().method();
  check.Require(method == v1::CompressionSpec::COMERA ||
                    method == v1::CompressionSpec::DENSE ||
                    method == v1::CompressionSpec::COLA,
                "optimizer.kind",
                "muon goes with the methods comera, dense and cola");
  check.Require(spec.objective().kind() != v1::ObjectiveSpec::REFERENCE,
                "optimizer.kind",
                "the reference objective is trained by adamw, as published");
}

void CheckDecay(const v1::OptimizerSpec& optimizer, SpecChecker& check) {
  const v1::OptimizerSpec::Decay decay = optimizer.decay();
  check.NonNegative("optimizer.min_scale", optimizer.min_scale(), 1);
  check.Require(optimizer.min_scale() == 0 || decay != v1::OptimizerSpec::NONE,
                "optimizer.min_scale",
                "is the end of a decay: optimizer.decay is none");
  if (decay == v1::OptimizerSpec::WSD) {
    check.Weight("optimizer.decay_fraction", optimizer.decay_fraction(), 1);
  } else {
    check.Require(!optimizer.has_decay_fraction(), "optimizer.decay_fraction",
                  "is for WSD only (optimizer.decay)");
  }
}

void CheckOptimizer(const v1::OptimizerSpec& optimizer, SpecChecker& check) {
  check.Weight("optimizer.learning_rate_cores", optimizer.learning_rate_cores(),
               100);
  check.Weight("optimizer.learning_rate_ranks", optimizer.learning_rate_ranks(),
               100);
  check.Weight("optimizer.learning_rate_other", optimizer.learning_rate_other(),
               100);
  if (optimizer.has_learning_rate_tables()) {
    check.Weight("optimizer.learning_rate_tables",
                 optimizer.learning_rate_tables(), 100);
  }
  check.NonNegative("optimizer.weight_decay", optimizer.weight_decay(), 100);
  check.Require(optimizer.beta1() >= 0 && optimizer.beta1() < 1,
                "optimizer.beta1", "must be at least 0 and below 1");
  check.Require(optimizer.beta2() >= 0 && optimizer.beta2() < 1,
                "optimizer.beta2", "must be at least 0 and below 1");
  check.Weight("optimizer.epsilon", optimizer.epsilon(), 1);
  check.Range("optimizer.warmup_steps", optimizer.warmup_steps(), 0, kMaxSteps);
  check.NonNegative("optimizer.clip_norm", optimizer.clip_norm(), kMaxWeight);
  CheckDecay(optimizer, check);
}

bool IsLabelKey(std::string_view key) {
  return !key.empty() && key.size() <= 63 &&
         std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
                  c == '/';
         });
}

void CheckAdministration(const v1::JobSpec& spec, SpecChecker& check) {
  check.Require(spec.display_name().size() <= 256, "display_name",
                "is longer than 256 bytes");
  check.Require(
      !LooksLikeSecret(spec.display_name()), "display_name",
      "looks like a secret, and everybody who may see the job sees it");
  check.Range("labels", spec.labels_size(), 0, kMaxLabels, "entries");
  if (spec.labels_size() <= kMaxLabels) {
    for (const auto& [key, value] : spec.labels()) {
      const std::string field = absl::StrCat("labels[", key, "]");
      // The message must not contain the text.
      check.Require(
          !NamesSecret(key) && !LooksLikeSecret(key) && !LooksLikeSecret(value),
          LooksLikeSecret(key) ? "labels" : field,
          "looks like a secret, and everybody who may see the job sees "
          "its labels: keep secrets in files that the workers can read");
      check.Require(IsLabelKey(key), field,
                    "has a key other than 1 to 63 of [A-Za-z0-9._/-]");
      check.Require(value.size() <= 255, field, "is longer than 255 bytes");
    }
  }
  check.Require(IsResourceId(spec.queue()), "queue",
                "must be 1 to 63 of [a-z0-9-]");
  check.Range("priority", spec.priority(), -1000, 1000);
  check.Range("retries.infrastructure", spec.retries().infrastructure(), 0,
              1000);
  check.Range("retries.training", spec.retries().training(), 0, 1000);
  std::set<int> budgets;
  for (int i = 0; i < spec.retries().classes_size(); ++i) {
    const v1::ClassBudget& budget = spec.retries().classes(i);
    const std::string field = absl::StrCat("retries.classes[", i, "]");
    const v1::FailureClass failure_class = budget.failure_class();
    check.Require(v1::FailureClass_IsValid(failure_class) &&
                      failure_class != v1::FAILURE_CLASS_UNSPECIFIED &&
                      failure_class != v1::USER && failure_class != v1::DATA &&
                      failure_class != v1::PREEMPTED,
                  field + ".failure_class",
                  "must be a class that can be tried again: not USER, DATA or "
                  "PREEMPTED");
    check.Require(budgets.insert(failure_class).second,
                  field + ".failure_class", "is there twice");
    check.Range(field + ".retries", budget.retries(), 0, 1000);
  }
  if (spec.has_time_limit()) {
    const auto& limit = spec.time_limit();
    const bool positive = limit.seconds() >= 0 && limit.nanos() >= 0 &&
                          limit.seconds() + limit.nanos() > 0;
    check.Require(positive && limit.nanos() < 1'000'000'000 &&
                      limit.seconds() <= 10LL * 366 * 86400,
                  "time_limit", "must be above 0 and at most 10 years");
  }
  check.Range("checkpoint.every_steps", spec.checkpoint().every_steps(), 1,
              kMaxSteps);
  check.Range("checkpoint.keep", spec.checkpoint().keep(), 2, 1000);
  check.Range("checkpoint.replicas", spec.checkpoint().replicas(), 0, 8);
  check.Range("checkpoint.snapshot_every_steps",
              spec.checkpoint().snapshot_every_steps(), 0, kMaxSteps);
}

// Refuses targets that no ranks can reach. Called only if what describes model,
// data, compression and objective is valid.
void CheckReachable(const v1::JobSpec& spec, SpecChecker& check) {
  if (!spec.objective().has_late() || spec.objective().early().only()) return;
  const v1::LateStage& late = spec.objective().late();
  const double smallest = SmallestModelParameters(spec);
  int index = 0;
  for (const v1::Target& target : TargetsOf(late)) {
    std::string field = TargetField(late, index++);
    // The size in parameters.
    double size = 0;
    switch (target.target_size_case()) {
      case v1::Target::kTargetBytes:
        field += ".target_bytes";
        size = static_cast<double>(target.target_bytes()) / sizeof(float);
        break;
      case v1::Target::kTargetParameters:
        field += ".target_parameters";
        size = static_cast<double>(target.target_parameters());
        break;
      default:
        field += ".target_ratio";
        size = target.target_ratio() * LargestModelParameters(spec);
    }
    check.Require(
        size >= smallest, field,
        absl::StrCat("cannot be reached: at most ", static_cast<int64_t>(size),
                     " parameters, but what is "
                     "never compressed (biases, LayerNorms, positions, dense "
                     "layers) has ",
                     static_cast<int64_t>(smallest)));
  }
}

}  // namespace

std::vector<FieldViolation> ValidateJobSpec(const v1::JobSpec& spec,
                                            v1::JobSpec* filled) {
  std::vector<FieldViolation> violations;
  // What follows may rely on finite numbers and on text.
  CheckFields(spec, &violations);
  if (!violations.empty()) return violations;
  if (spec.compression().method() == v1::CompressionSpec::AUTO) {
    violations.push_back(
        {"compression.method",
         "AUTO is a search, which makes several jobs: give this file to comera "
         "submit, comera run or comera sweep, or call SweepService.CreateSweep "
         "with it"});
    return violations;
  }
  if (spec.has_program()) {
    v1::JobSpec full = WithDefaults(spec);
    SpecChecker check(&violations);
    CheckProgram(full, check);
    CheckAdministration(full, check);
    if (violations.empty() && filled != nullptr) *filled = std::move(full);
    return violations;
  }
  // A width that is out of range has no default of four times it.
  const int64_t hidden = spec.model().hidden();
  v1::JobSpec full = spec;
  if (hidden < 0 || hidden > 65536) full.mutable_model()->set_ffn(1);
  full = WithDefaults(std::move(full));
  SpecChecker check(&violations);
  CheckModel(full, check);
  CheckData(full, check);
  CheckCompression(full, check);
  CheckObjective(full, check);
  // It relies on sizes, modes and targets, and on nothing that follows.
  if (violations.empty()) CheckReachable(full, check);
  CheckOptimizerKind(full, check);
  CheckOptimizer(full.optimizer(), check);
  CheckTraining(full, check);
  CheckAdministration(full, check);
  CheckStartFrom(full, check);
  check.Require(!full.has_budget(), "budget",
                "is for jobs with compression.method AUTO");
  if (violations.empty() && filled != nullptr) *filled = std::move(full);
  return violations;
}

}  // namespace comera
