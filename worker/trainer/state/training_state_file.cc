// Writes a training state as a safetensors file, and reads it back.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "worker/trainer/planning/calibration.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {
namespace {

constexpr char kFormat[] = "comera-training-state-3";
// Its validation figures are the first few of today's.
constexpr char kFormerFormat[] = "comera-training-state-2";
// The name of the machine does not matter here, only its speed.
constexpr char kMachine[] = "of the job";

// Doubles travel as their bits: text would have to be trusted to round-trip.
int64_t BitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

double DoubleOf(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

absl::Status AddInts(Safetensors& file, const std::string& name,
                     const std::vector<int64_t>& values) {
  const int64_t count = static_cast<int64_t>(values.size());
  return file.AddInt64(name, {count}, values.data(), count);
}

absl::Status AddFloats(Safetensors& file, const std::string& name,
                       const std::vector<float>& values) {
  const int64_t count = static_cast<int64_t>(values.size());
  return file.AddFloat(name, {count}, values.data(), count);
}

// Most optimisers have no projectors, and no tensor is written for them.
absl::Status AddProjectors(Safetensors& file, const std::string& name,
                           const std::vector<float>& projectors) {
  if (projectors.empty()) return absl::OkStatus();
  return AddFloats(file, name, projectors);
}

absl::StatusOr<std::vector<float>> GetProjectors(const Safetensors& file,
                                                 const std::string& name) {
  if (file.tensors().count(name) == 0) return std::vector<float>();
  return file.GetFloat(name);
}

absl::Status AddRanks(Safetensors& file, const std::string& prefix,
                      const RankTable& ranks) {
  for (const auto& [layer, values] : ranks) {
    RETURN_IF_ERROR(AddInts(file, absl::StrCat(prefix, layer), values));
  }
  return absl::OkStatus();
}

absl::StatusOr<RankTable> GetRanks(const Safetensors& file,
                                   absl::string_view prefix) {
  RankTable ranks;
  for (const auto& [name, tensor] : file.tensors()) {
    absl::string_view layer = name;
    if (!absl::ConsumePrefix(&layer, prefix)) continue;
    ASSIGN_OR_RETURN(ranks[std::string(layer)], file.GetInt64(name));
  }
  return ranks;
}

// Reads a tensor of exactly `count` numbers.
absl::StatusOr<std::vector<int64_t>> GetInts(const Safetensors& file,
                                             const std::string& name,
                                             size_t count) {
  ASSIGN_OR_RETURN(std::vector<int64_t> values, file.GetInt64(name));
  if (values.size() != count) {
    return absl::DataLossError(absl::StrCat(
        "tensor ", name, ": ", values.size(), " numbers, not ", count));
  }
  return values;
}

constexpr size_t kValidationNumbers = 13;
constexpr size_t kFormerValidationNumbers = 5;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double ValueOf(const std::optional<Estimate>& estimate) {
  return estimate ? estimate->value : kNone;
}

double ErrorOf(const std::optional<Estimate>& estimate) {
  return estimate ? estimate->error : kNone;
}

std::optional<Estimate> UnpackEstimate(int64_t value, int64_t error) {
  const double number = DoubleOf(value);
  if (!std::isfinite(number)) return std::nullopt;
  return Estimate{number, DoubleOf(error)};
}

std::array<int64_t, kValidationNumbers> PackValidation(
    const ValidationResult& v) {
  return {v.step,
          BitsOf(v.loss),
          BitsOf(v.accuracy),
          BitsOf(ValueOf(v.auc)),
          BitsOf(v.normalized_entropy.value_or(kNone)),
          BitsOf(v.loss_error),
          BitsOf(v.labels),
          BitsOf(ValueOf(v.f1)),
          BitsOf(ErrorOf(v.f1)),
          BitsOf(ValueOf(v.mcc)),
          BitsOf(ErrorOf(v.mcc)),
          BitsOf(ErrorOf(v.auc)),
          v.refuted ? 1 : 0};
}

// Reads a result back from its numbers, of which there are so many.
ValidationResult UnpackValidation(const int64_t* numbers, size_t count) {
  ValidationResult v;
  v.step = numbers[0];
  v.loss = DoubleOf(numbers[1]);
  v.accuracy = DoubleOf(numbers[2]);
  const bool former = count < kValidationNumbers;
  v.auc = UnpackEstimate(numbers[3], former ? BitsOf(0) : numbers[11]);
  const double entropy = DoubleOf(numbers[4]);
  if (std::isfinite(entropy)) v.normalized_entropy = entropy;
  if (former) return v;
  v.loss_error = DoubleOf(numbers[5]);
  v.labels = DoubleOf(numbers[6]);
  v.f1 = UnpackEstimate(numbers[7], numbers[8]);
  v.mcc = UnpackEstimate(numbers[9], numbers[10]);
  v.refuted = numbers[12] != 0;
  return v;
}

std::vector<int64_t> PackProgress(const TrainingProgress& p) {
  std::vector<int64_t> numbers = {p.step,
                                  p.stage,
                                  BitsOf(p.loss.sum),
                                  BitsOf(p.loss.weight),
                                  p.initial_size,
                                  p.late_size,
                                  p.target_size,
                                  BitsOf(p.validation_gap),
                                  p.targets_met ? 1 : 0};
  const auto validation = PackValidation(p.validation);
  numbers.insert(numbers.end(), validation.begin(), validation.end());
  return numbers;
}
constexpr size_t kProgressNumbers = 9;

absl::StatusOr<TrainingProgress> UnpackProgress(const std::vector<int64_t>& v) {
  TrainingProgress p;
  p.step = v[0];
  if (v[0] < 0 || (v[1] != v1::EARLY && v[1] != v1::LATE)) {
    return absl::DataLossError(
        absl::StrCat("progress: step ", v[0], ", stage ", v[1]));
  }
  p.stage = static_cast<v1::Stage>(v[1]);
  p.loss.sum = DoubleOf(v[2]);
  p.loss.weight = DoubleOf(v[3]);
  p.initial_size = v[4];
  p.late_size = v[5];
  p.target_size = v[6];
  p.validation_gap = DoubleOf(v[7]);
  p.targets_met = v[8] != 0;
  p.validation =
      UnpackValidation(&v[kProgressNumbers], v.size() - kProgressNumbers);
  return p;
}

constexpr size_t kOutcomeNumbers = 4;

absl::Status AddOutcomes(Safetensors& file,
                         const std::vector<TargetOutcome>& outcomes) {
  if (outcomes.empty()) return absl::OkStatus();
  std::vector<int64_t> values;
  for (const TargetOutcome& o : outcomes) {
    values.insert(values.end(),
                  {o.met ? 1 : 0, o.target_size, o.steps, o.size});
    const auto validation = PackValidation(o.validation);
    values.insert(values.end(), validation.begin(), validation.end());
  }
  return AddInts(file, "outcomes", values);
}

absl::StatusOr<std::vector<TargetOutcome>> GetOutcomes(
    const Safetensors& file, size_t validation_numbers, int64_t steps_done) {
  std::vector<TargetOutcome> outcomes;
  if (file.tensors().count("outcomes") == 0) return outcomes;
  ASSIGN_OR_RETURN(const std::vector<int64_t> values,
                   file.GetInt64("outcomes"));
  int64_t left = steps_done;
  const size_t width = kOutcomeNumbers + validation_numbers;
  for (size_t i = 0; i + width <= values.size(); i += width) {
    const int64_t* v = values.data() + i;
    TargetOutcome outcome;
    outcome.met = v[0] != 0;
    outcome.target_size = v[1];
    outcome.steps = v[2];
    outcome.size = v[3];
    outcome.validation =
        UnpackValidation(v + kOutcomeNumbers, validation_numbers);
    if (outcome.steps < 0 || outcome.steps > left) {
      return absl::DataLossError(
          absl::StrCat("outcomes: ", outcome.steps, " steps of ", left));
    }
    left -= outcome.steps;
    outcomes.push_back(outcome);
  }
  return outcomes;
}

absl::Status AddFront(Safetensors& file, const ParetoFront& front) {
  if (front.points().empty()) return absl::OkStatus();
  std::vector<int64_t> values;
  for (const ParetoCandidate& point : front.points()) {
    values.insert(values.end(), {point.step, BitsOf(point.validation_loss),
                                 point.size_parameters});
  }
  return AddInts(file, "pareto_front", values);
}

absl::StatusOr<ParetoFront> GetFront(const Safetensors& file) {
  if (file.tensors().count("pareto_front") == 0) return ParetoFront();
  ASSIGN_OR_RETURN(const std::vector<int64_t> values,
                   file.GetInt64("pareto_front"));
  ParetoFront front;
  for (size_t i = 0; i + 2 < values.size(); i += 3) {
    front.Add({values[i], DoubleOf(values[i + 1]), values[i + 2]});
  }
  return front;
}

absl::Status AddNearest(Safetensors& file, const NearestModel& nearest) {
  std::vector<int64_t> numbers = {nearest.size, nearest.small_enough ? 1 : 0,
                                  BitsOf(nearest.distance)};
  const auto validation = PackValidation(nearest.validation);
  numbers.insert(numbers.end(), validation.begin(), validation.end());
  RETURN_IF_ERROR(AddInts(file, "nearest", numbers));
  RETURN_IF_ERROR(AddRanks(file, "nearest_ranks.", nearest.ranks));
  return AddFloats(file, "nearest_parameters", nearest.parameters);
}

absl::StatusOr<NearestModel> GetNearest(const Safetensors& file,
                                        size_t validation_numbers) {
  NearestModel nearest;
  ASSIGN_OR_RETURN(const std::vector<int64_t> v,
                   GetInts(file, "nearest", 3 + validation_numbers));
  nearest.size = v[0];
  nearest.small_enough = v[1] != 0;
  nearest.distance = DoubleOf(v[2]);
  nearest.validation = UnpackValidation(&v[3], validation_numbers);
  ASSIGN_OR_RETURN(nearest.ranks, GetRanks(file, "nearest_ranks."));
  ASSIGN_OR_RETURN(nearest.parameters, file.GetFloat("nearest_parameters"));
  return nearest;
}

absl::Status AddControl(Safetensors& file, const std::string& name,
                        const SizeControl& control) {
  RETURN_IF_ERROR(AddInts(file, name,
                          {BitsOf(control.start_size), control.observations,
                           BitsOf(control.weight), control.wave_steps_left}));
  RETURN_IF_ERROR(AddFloats(file, name + "_saliency", control.saliency));
  return AddFloats(file, name + "_fade", control.fade);
}

absl::StatusOr<SizeControl> GetControl(const Safetensors& file,
                                       const std::string& name) {
  SizeControl control;
  ASSIGN_OR_RETURN(const std::vector<int64_t> v, GetInts(file, name, 4));
  control.start_size = DoubleOf(v[0]);
  control.observations = v[1];
  control.weight = DoubleOf(v[2]);
  control.wave_steps_left = v[3];
  ASSIGN_OR_RETURN(control.saliency, file.GetFloat(name + "_saliency"));
  ASSIGN_OR_RETURN(control.fade, file.GetFloat(name + "_fade"));
  return control;
}

absl::Status AddBranch(Safetensors& file, const std::string& name,
                       const BranchPoint& branch) {
  std::vector<int64_t> numbers = {BitsOf(branch.loss.sum),
                                  BitsOf(branch.loss.weight),
                                  BitsOf(branch.validation_gap)};
  const auto validation = PackValidation(branch.validation);
  numbers.insert(numbers.end(), validation.begin(), validation.end());
  RETURN_IF_ERROR(AddInts(file, name, numbers));
  RETURN_IF_ERROR(AddRanks(file, name + "_ranks.", branch.ranks));
  RETURN_IF_ERROR(AddFloats(file, name + "_parameters", branch.parameters));
  RETURN_IF_ERROR(AddFloats(file, name + "_first_moment", branch.first_moment));
  RETURN_IF_ERROR(
      AddFloats(file, name + "_second_moment", branch.second_moment));
  return AddProjectors(file, name + "_projectors", branch.projectors);
}

absl::StatusOr<BranchPoint> GetBranch(const Safetensors& file,
                                      const std::string& name,
                                      size_t validation_numbers) {
  BranchPoint branch;
  ASSIGN_OR_RETURN(const std::vector<int64_t> v,
                   GetInts(file, name, 3 + validation_numbers));
  branch.loss.sum = DoubleOf(v[0]);
  branch.loss.weight = DoubleOf(v[1]);
  branch.validation_gap = DoubleOf(v[2]);
  branch.validation = UnpackValidation(&v[3], validation_numbers);
  ASSIGN_OR_RETURN(branch.ranks, GetRanks(file, name + "_ranks."));
  ASSIGN_OR_RETURN(branch.parameters, file.GetFloat(name + "_parameters"));
  ASSIGN_OR_RETURN(branch.first_moment, file.GetFloat(name + "_first_moment"));
  ASSIGN_OR_RETURN(branch.second_moment,
                   file.GetFloat(name + "_second_moment"));
  ASSIGN_OR_RETURN(branch.projectors,
                   GetProjectors(file, name + "_projectors"));
  return branch;
}

absl::Status AddGood(Safetensors& file, const GoodState& good) {
  RETURN_IF_ERROR(
      AddInts(file, "good_state",
              {good.stage, good.step, good.ended_targets,
               good.small_enough ? 1 : 0, good.size, BitsOf(good.kept_loss)}));
  RETURN_IF_ERROR(AddBranch(file, "good", good));
  if (!good.control.has_value()) return absl::OkStatus();
  return AddControl(file, "good_control", *good.control);
}

absl::StatusOr<GoodState> GetGood(const Safetensors& file,
                                  size_t validation_numbers) {
  GoodState good;
  ASSIGN_OR_RETURN(static_cast<BranchPoint&>(good),
                   GetBranch(file, "good", validation_numbers));
  ASSIGN_OR_RETURN(const std::vector<int64_t> v,
                   GetInts(file, "good_state", 6));
  if (v[0] != v1::EARLY && v[0] != v1::LATE) {
    return absl::DataLossError(absl::StrCat("good_state: stage ", v[0]));
  }
  good.stage = static_cast<v1::Stage>(v[0]);
  good.step = v[1];
  good.ended_targets = v[2];
  good.small_enough = v[3] != 0;
  good.size = v[4];
  good.kept_loss = DoubleOf(v[5]);
  if (file.tensors().count("good_control") > 0) {
    ASSIGN_OR_RETURN(good.control, GetControl(file, "good_control"));
  }
  return good;
}

absl::Status AddStability(Safetensors& file, const Stability& s) {
  return AddInts(
      file, "stability",
      {BitsOf(s.rate_factor), s.lowered, BitsOf(s.lowest_loss), s.lowest_step,
       s.validations, s.learned ? 1 : 0, s.warned ? 1 : 0});
}

// States of earlier versions have none.
absl::StatusOr<Stability> GetStability(const Safetensors& file) {
  Stability s;
  if (file.tensors().count("stability") == 0) return s;
  ASSIGN_OR_RETURN(const std::vector<int64_t> v, GetInts(file, "stability", 7));
  s.rate_factor = DoubleOf(v[0]);
  if (!(s.rate_factor > 0 && s.rate_factor <= 1)) {
    return absl::DataLossError(
        absl::StrCat("stability: rate factor ", s.rate_factor));
  }
  s.lowered = v[1];
  s.lowest_loss = DoubleOf(v[2]);
  s.lowest_step = v[3];
  s.validations = v[4];
  s.learned = v[5] != 0;
  s.warned = v[6] != 0;
  return s;
}

absl::Status AddSpikes(Safetensors& file, const SpikeState& s) {
  if (s.weight == 0 && s.skipped == 0) return absl::OkStatus();
  return AddInts(
      file, "spikes",
      {BitsOf(s.sum), BitsOf(s.weight), s.norms, s.in_row, s.skipped});
}

// States of jobs without training.spike_factor have none.
absl::StatusOr<SpikeState> GetSpikes(const Safetensors& file) {
  SpikeState s;
  if (file.tensors().count("spikes") == 0) return s;
  ASSIGN_OR_RETURN(const std::vector<int64_t> v, GetInts(file, "spikes", 5));
  s.sum = DoubleOf(v[0]);
  s.weight = DoubleOf(v[1]);
  if (!(s.sum >= 0 && s.weight >= 0 && s.weight <= 1)) {
    return absl::DataLossError(
        absl::StrCat("spikes: norms of ", s.sum, " at weight ", s.weight));
  }
  s.norms = v[2];
  s.in_row = v[3];
  s.skipped = v[4];
  return s;
}

absl::Status AddLabelTokens(Safetensors& file, const TrainingProgress& p) {
  if (p.label_tokens == 0) return absl::OkStatus();
  return AddInts(file, "label_tokens", {p.label_tokens, p.early_steps});
}

// States of earlier versions, which had no training.max_tokens, have none.
absl::Status GetLabelTokens(const Safetensors& file, TrainingProgress* p) {
  if (file.tensors().count("label_tokens") == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> v,
                   GetInts(file, "label_tokens", 2));
  if (v[0] < 0 || v[1] < -1 || v[1] > p->step) {
    return absl::DataLossError(absl::StrCat("label_tokens: ", v[0],
                                            ", early stage of ", v[1],
                                            " steps, after ", p->step));
  }
  p->label_tokens = v[0];
  p->early_steps = v[1];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> TrainingState::Serialize() const {
  Safetensors file;
  file.metadata()["format"] = kFormat;
  file.metadata()["fingerprint"] = fingerprint;
  if (!data_digest.empty()) file.metadata()["data"] = data_digest;
  file.metadata()["machine"] = CalibrationJson(kMachine, machine);
  RETURN_IF_ERROR(AddInts(file, "progress", PackProgress(progress)));
  RETURN_IF_ERROR(AddOutcomes(file, progress.outcomes));
  RETURN_IF_ERROR(AddFront(file, progress.front));
  RETURN_IF_ERROR(AddStability(file, progress.stability));
  RETURN_IF_ERROR(AddSpikes(file, progress.spikes));
  RETURN_IF_ERROR(AddLabelTokens(file, progress));
  if (progress.energy_joules > 0) {
    RETURN_IF_ERROR(AddInts(file, "energy", {BitsOf(progress.energy_joules)}));
  }
  RETURN_IF_ERROR(AddRanks(file, "ranks.", ranks));
  RETURN_IF_ERROR(AddFloats(file, "parameters", parameters));
  RETURN_IF_ERROR(AddFloats(file, "first_moment", first_moment));
  RETURN_IF_ERROR(AddFloats(file, "second_moment", second_moment));
  RETURN_IF_ERROR(AddProjectors(file, "projectors", projectors));
  if (nearest.has_value()) RETURN_IF_ERROR(AddNearest(file, *nearest));
  if (control.has_value()) {
    RETURN_IF_ERROR(AddControl(file, "control", *control));
  }
  if (branch.has_value()) RETURN_IF_ERROR(AddBranch(file, "branch", *branch));
  if (good.has_value()) RETURN_IF_ERROR(AddGood(file, *good));
  return file.Serialize();
}

absl::StatusOr<TrainingState> TrainingState::Parse(
    const std::string& contents) {
  ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Parse(contents));
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() ||
      (format->second != kFormat && format->second != kFormerFormat)) {
    return absl::DataLossError("not a training state");
  }
  const size_t validation_numbers =
      format->second == kFormat ? kValidationNumbers : kFormerValidationNumbers;
  TrainingState state;
  const auto fingerprint = file.metadata().find("fingerprint");
  if (fingerprint != file.metadata().end()) {
    state.fingerprint = fingerprint->second;
  }
  const auto data = file.metadata().find("data");
  if (data != file.metadata().end()) state.data_digest = data->second;
  const auto machine = file.metadata().find("machine");
  if (machine == file.metadata().end()) {
    return absl::DataLossError("machine: missing");
  }
  absl::StatusOr<kernels::MachineSpeed> speed =
      ParseCalibration(machine->second, kMachine);
  if (!speed.ok()) return absl::DataLossError(speed.status().message());
  state.machine = *speed;
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> numbers,
      GetInts(file, "progress", kProgressNumbers + validation_numbers));
  ASSIGN_OR_RETURN(state.progress, UnpackProgress(numbers));
  ASSIGN_OR_RETURN(state.progress.outcomes,
                   GetOutcomes(file, validation_numbers, state.progress.step));
  ASSIGN_OR_RETURN(state.progress.front, GetFront(file));
  ASSIGN_OR_RETURN(state.progress.stability, GetStability(file));
  ASSIGN_OR_RETURN(state.progress.spikes, GetSpikes(file));
  RETURN_IF_ERROR(GetLabelTokens(file, &state.progress));
  if (file.tensors().count("energy") > 0) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> energy,
                     GetInts(file, "energy", 1));
    state.progress.energy_joules = DoubleOf(energy[0]);
  }
  ASSIGN_OR_RETURN(state.ranks, GetRanks(file, "ranks."));
  ASSIGN_OR_RETURN(state.parameters, file.GetFloat("parameters"));
  ASSIGN_OR_RETURN(state.first_moment, file.GetFloat("first_moment"));
  ASSIGN_OR_RETURN(state.second_moment, file.GetFloat("second_moment"));
  ASSIGN_OR_RETURN(state.projectors, GetProjectors(file, "projectors"));
  if (state.first_moment.size() != state.second_moment.size()) {
    return absl::DataLossError("first and second moments differ in number");
  }
  if (file.tensors().count("nearest") > 0) {
    ASSIGN_OR_RETURN(state.nearest, GetNearest(file, validation_numbers));
  }
  if (file.tensors().count("control") > 0) {
    ASSIGN_OR_RETURN(state.control, GetControl(file, "control"));
  }
  if (file.tensors().count("branch") > 0) {
    ASSIGN_OR_RETURN(state.branch,
                     GetBranch(file, "branch", validation_numbers));
  }
  if (file.tensors().count("good_state") > 0) {
    ASSIGN_OR_RETURN(state.good, GetGood(file, validation_numbers));
  }
  return state;
}

}  // namespace comera::trainer
