#include "worker/trainer/training_state.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace comera::trainer {
namespace {

constexpr char kFormat[] = "comera-training-state-1";

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

// A tensor of exactly `count` numbers.
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

std::vector<int64_t> PackProgress(const TrainingProgress& p) {
  return {p.step,
          p.stage,
          BitsOf(p.loss.sum),
          BitsOf(p.loss.weight),
          p.initial_size,
          p.target_size,
          p.validation.step,
          BitsOf(p.validation.loss),
          BitsOf(p.validation.accuracy),
          BitsOf(p.validation_gap),
          p.targets_met ? 1 : 0};
}
constexpr size_t kProgressNumbers = 11;

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
  p.target_size = v[5];
  p.validation = {v[6], DoubleOf(v[7]), DoubleOf(v[8])};
  p.validation_gap = DoubleOf(v[9]);
  p.targets_met = v[10] != 0;
  return p;
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
  RETURN_IF_ERROR(
      AddInts(file, "nearest",
              {nearest.validation.step, BitsOf(nearest.validation.loss),
               BitsOf(nearest.validation.accuracy), nearest.size,
               BitsOf(nearest.distance)}));
  RETURN_IF_ERROR(AddRanks(file, "nearest_ranks.", nearest.ranks));
  return AddFloats(file, "nearest_parameters", nearest.parameters);
}

absl::StatusOr<NearestModel> GetNearest(const Safetensors& file) {
  NearestModel nearest;
  ASSIGN_OR_RETURN(const std::vector<int64_t> v, GetInts(file, "nearest", 5));
  nearest.validation = {v[0], DoubleOf(v[1]), DoubleOf(v[2])};
  nearest.size = v[3];
  nearest.distance = DoubleOf(v[4]);
  ASSIGN_OR_RETURN(nearest.ranks, GetRanks(file, "nearest_ranks."));
  ASSIGN_OR_RETURN(nearest.parameters, file.GetFloat("nearest_parameters"));
  return nearest;
}

}  // namespace

RankTable RanksOf(const ModelConfig& config) {
  RankTable ranks;
  for (const auto& [layer, factorisation] : config.layers_by_name) {
    if (!factorisation.dense()) ranks[layer] = factorisation.ranks;
  }
  return ranks;
}

absl::StatusOr<ModelConfig> WithRanks(ModelConfig config,
                                      const RankTable& ranks) {
  size_t used = 0;
  for (auto& [layer, factorisation] : config.layers_by_name) {
    if (factorisation.dense()) continue;
    const auto it = ranks.find(layer);
    if (it == ranks.end() || it->second.size() != factorisation.ranks.size()) {
      return absl::DataLossError(absl::StrCat("ranks of layer ", layer));
    }
    for (size_t i = 0; i < it->second.size(); ++i) {
      if (it->second[i] < 0 || it->second[i] > factorisation.ranks[i]) {
        return absl::DataLossError(absl::StrCat("ranks of layer ", layer, ": ",
                                                it->second[i], " at bond ", i));
      }
    }
    factorisation.ranks = it->second;
    ++used;
  }
  if (used != ranks.size()) {
    return absl::DataLossError("ranks of layers that the model does not have");
  }
  return config;
}

absl::StatusOr<std::string> TrainingState::Serialize() const {
  Safetensors file;
  file.metadata()["format"] = kFormat;
  file.metadata()["fingerprint"] = fingerprint;
  RETURN_IF_ERROR(AddInts(file, "progress", PackProgress(progress)));
  RETURN_IF_ERROR(AddFront(file, progress.front));
  RETURN_IF_ERROR(AddRanks(file, "ranks.", ranks));
  RETURN_IF_ERROR(AddFloats(file, "parameters", parameters));
  RETURN_IF_ERROR(AddFloats(file, "first_moment", first_moment));
  RETURN_IF_ERROR(AddFloats(file, "second_moment", second_moment));
  if (nearest.has_value()) RETURN_IF_ERROR(AddNearest(file, *nearest));
  return file.Serialize();
}

absl::StatusOr<TrainingState> TrainingState::Parse(
    const std::string& contents) {
  ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Parse(contents));
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != kFormat) {
    return absl::DataLossError("not a training state");
  }
  TrainingState state;
  const auto fingerprint = file.metadata().find("fingerprint");
  if (fingerprint != file.metadata().end()) {
    state.fingerprint = fingerprint->second;
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                   GetInts(file, "progress", kProgressNumbers));
  ASSIGN_OR_RETURN(state.progress, UnpackProgress(numbers));
  ASSIGN_OR_RETURN(state.progress.front, GetFront(file));
  ASSIGN_OR_RETURN(state.ranks, GetRanks(file, "ranks."));
  ASSIGN_OR_RETURN(state.parameters, file.GetFloat("parameters"));
  ASSIGN_OR_RETURN(state.first_moment, file.GetFloat("first_moment"));
  ASSIGN_OR_RETURN(state.second_moment, file.GetFloat("second_moment"));
  if (state.first_moment.size() != state.parameters.size() ||
      state.second_moment.size() != state.parameters.size()) {
    return absl::DataLossError("moments and parameters differ in number");
  }
  if (file.tensors().count("nearest") > 0) {
    ASSIGN_OR_RETURN(state.nearest, GetNearest(file));
  }
  return state;
}

std::string SpecFingerprint(const v1::JobSpec& spec) {
  v1::JobSpec kept;
  *kept.mutable_model() = spec.model();
  *kept.mutable_data() = spec.data();
  *kept.mutable_compression() = spec.compression();
  *kept.mutable_objective() = spec.objective();
  *kept.mutable_optimizer() = spec.optimizer();
  *kept.mutable_training() = spec.training();
  // How often progress is shown changes no number.
  kept.mutable_training()->clear_report_every_steps();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    kept.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

}  // namespace comera::trainer
