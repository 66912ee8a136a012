// Reads the lines that a run of a program writes.
#include "worker/trainer/program/program_events.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/text.h"
#include "google/protobuf/util/time_util.h"

namespace comera::trainer {
namespace {

constexpr double kDecay = 0.95;
// What a double tells apart from its neighbours.
constexpr double kMaxCount = 9007199254740992.0;
constexpr size_t kMaxFront = 1000;
constexpr size_t kMaxLayers = 10000;
constexpr size_t kMaxBonds = 64;
// The service does not know what the layers of a program are for.
constexpr char kLayerClass[] = "layers";
constexpr size_t kMaxTextBytes = 1024;
constexpr double kMaxEtaSeconds = 10.0 * 366 * 86400;

v1::ParetoPoint PointOf(int64_t step, double loss, int64_t size) {
  v1::ParetoPoint point;
  point.set_step(step);
  point.set_validation_loss(loss);
  point.set_size_parameters(size);
  point.set_size_bytes(size * static_cast<int64_t>(sizeof(float)));
  return point;
}

bool Beats(const v1::ParetoPoint& a, const v1::ParetoPoint& b) {
  return a.validation_loss() <= b.validation_loss() &&
         a.size_parameters() <= b.size_parameters();
}

}  // namespace

class ProgramEvents::Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {}

  absl::StatusOr<int64_t> Count(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end() || !found->is_number()) return Bad(name);
    const double value = found->get<double>();
    if (!(value >= 0 && value < kMaxCount) || value != std::floor(value)) {
      return Bad(name);
    }
    return static_cast<int64_t>(value);
  }

  // A number; null, which stands for one that is not finite, is NaN.
  absl::StatusOr<double> Number(const char* name) const {
    const auto found = object_.find(name);
    if (found != object_.end() && found->is_null()) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (found == object_.end() || !found->is_number()) return Bad(name);
    const double value = found->get<double>();
    if (!std::isfinite(value)) return Bad(name);
    return value;
  }

  // The same, or `fallback` where there is none or it is not finite.
  double NumberOr(const char* name, double fallback) const {
    const absl::StatusOr<double> value = Number(name);
    return value.ok() && std::isfinite(*value) ? *value : fallback;
  }

  absl::StatusOr<std::string> Text(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end() || !found->is_string()) return Bad(name);
    return found->get<std::string>();
  }

  const nlohmann::json* Array(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || !found->is_array() ? nullptr : &*found;
  }

  const nlohmann::json* Object(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || !found->is_object() ? nullptr : &*found;
  }

 private:
  static absl::Status Bad(const char* name) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is missing, or is not what it must be"));
  }

  const nlohmann::json& object_;
};

absl::StatusOr<ProgramEvents::News> ProgramEvents::Read(std::string_view line) {
  const nlohmann::json object = ParseJson({line.data(), line.size()});
  if (!object.is_object()) {
    return absl::InvalidArgumentError("not an object of JSON");
  }
  const Fields fields(object);
  ASSIGN_OR_RETURN(const std::string event, fields.Text("event"));
  last_time_ = fields.NumberOr("time", last_time_);
  News news;
  if (event != "validation" && event != "ranks") news.events = Flush();
  if (event == "started") {
    RETURN_IF_ERROR(OnStarted(fields, &news));
  } else if (event == "at") {
    ASSIGN_OR_RETURN(step_, fields.Count("step"));
  } else if (event == "step") {
    RETURN_IF_ERROR(OnStep(fields, &news));
  } else if (event == "validation") {
    RETURN_IF_ERROR(OnValidation(fields, &news));
  } else if (event == "ranks") {
    RETURN_IF_ERROR(OnRanks(fields, &news));
  } else if (event == "checkpoint") {
    RETURN_IF_ERROR(OnCheckpoint(fields, &news));
  } else if (event == "ended") {
    RETURN_IF_ERROR(OnEnded(fields));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("no event is called \"", TruncateUtf8(event, 64), "\""));
  }
  return news;
}

absl::Status ProgramEvents::OnStarted(const Fields& fields, News* news) {
  ASSIGN_OR_RETURN(step_, fields.Count("step"));
  ASSIGN_OR_RETURN(total_steps_, fields.Count("steps"));
  ASSIGN_OR_RETURN(size_, fields.Count("size"));
  started_ = true;
  ended_.reset();
  if (const nlohmann::json* const front = fields.Array("front")) {
    for (const nlohmann::json& one : *front) {
      if (!one.is_object() || front_.size() >= kMaxFront) continue;
      const Fields point(one);
      ASSIGN_OR_RETURN(const int64_t step, point.Count("step"));
      ASSIGN_OR_RETURN(const double loss, point.Number("validation_loss"));
      ASSIGN_OR_RETURN(const int64_t size, point.Count("size_parameters"));
      AddToFront(PointOf(step, loss, size));
    }
    // The newest of them is the last validation that is known.
    for (const v1::ParetoPoint& point : front_) {
      if (validated_ && point.step() < last_validation_) continue;
      validated_ = true;
      last_validation_ = point.step();
      validation_loss_ = point.validation_loss();
    }
  }
  v1::RunInfo& info = *news->events.emplace_back().mutable_run_info();
  info.set_initial_parameters(size_);
  if (const auto dense = fields.Count("dense_size"); dense.ok()) {
    info.set_dense_parameters(*dense);
  }
  info.set_total_steps(total_steps_);
  info.set_world_size(options_.world_size);
  info.set_resumed_from_step(step_);
  info.set_device(options_.device);
  return absl::OkStatus();
}

v1::StepMetrics ProgramEvents::Metrics() const {
  v1::StepMetrics metrics;
  metrics.set_step(step_);
  metrics.set_total_steps(total_steps_);
  metrics.set_stage(stage_);
  metrics.set_loss(loss_);
  metrics.set_smoothed_loss(loss_weight_ > 0 ? loss_sum_ / loss_weight_
                                             : loss_);
  metrics.set_size_parameters(size_);
  metrics.set_size_bytes(size_ * static_cast<int64_t>(sizeof(float)));
  metrics.set_samples_per_second(samples_per_second_);
  metrics.set_target_loss(options_.target_loss);
  metrics.set_target_size_parameters(options_.target_parameters);
  if (first_step_ >= 0 && step_ > first_step_ && total_steps_ > step_) {
    const double eta = (last_time_ - first_time_) /
                       static_cast<double>(step_ - first_step_) *
                       static_cast<double>(total_steps_ - step_);
    if (eta >= 0 && eta < kMaxEtaSeconds) {
      *metrics.mutable_eta() =
          google::protobuf::util::TimeUtil::MillisecondsToDuration(
              static_cast<int64_t>(eta * 1000));
    }
  }
  return metrics;
}

absl::Status ProgramEvents::OnStep(const Fields& fields, News* news) {
  ASSIGN_OR_RETURN(step_, fields.Count("step"));
  ASSIGN_OR_RETURN(const double loss, fields.Number("loss"));
  ASSIGN_OR_RETURN(size_, fields.Count("size"));
  const auto stage = fields.Text("stage");
  stage_ = stage.ok() && *stage == "late" ? v1::LATE : v1::EARLY;
  samples_per_second_ = std::max(0.0, fields.NumberOr("samples_per_second", 0));
  if (first_step_ < 0) {
    first_step_ = step_;
    first_time_ = last_time_;
  }
  loss_ = loss;
  if (std::isfinite(loss)) {
    loss_sum_ = kDecay * loss_sum_ + (1 - kDecay) * loss;
    loss_weight_ = kDecay * loss_weight_ + (1 - kDecay);
  }
  waiting_ = Metrics();
  return absl::OkStatus();
}

std::vector<v1::TrainerEvent> ProgramEvents::Flush() {
  std::vector<v1::TrainerEvent> events;
  if (waiting_) *events.emplace_back().mutable_metrics() = *std::move(waiting_);
  waiting_.reset();
  return events;
}

absl::Status ProgramEvents::OnValidation(const Fields& fields, News* news) {
  ASSIGN_OR_RETURN(step_, fields.Count("step"));
  ASSIGN_OR_RETURN(const double loss, fields.Number("validation_loss"));
  ASSIGN_OR_RETURN(size_, fields.Count("size_parameters"));
  if (waiting_ && waiting_->step() != step_) news->events = Flush();
  v1::StepMetrics metrics = waiting_ ? *std::move(waiting_) : Metrics();
  waiting_.reset();
  metrics.set_size_parameters(size_);
  metrics.set_size_bytes(size_ * static_cast<int64_t>(sizeof(float)));
  metrics.set_validation_loss(loss);
  *news->events.emplace_back().mutable_metrics() = std::move(metrics);
  if (!std::isfinite(loss)) return absl::OkStatus();
  validated_ = true;
  last_validation_ = step_;
  validation_loss_ = loss;
  const v1::ParetoPoint point = PointOf(step_, loss, size_);
  if (AddToFront(point)) {
    *news->events.emplace_back().mutable_pareto_point() = point;
  }
  return absl::OkStatus();
}

bool ProgramEvents::AddToFront(const v1::ParetoPoint& point) {
  if (std::any_of(
          front_.begin(), front_.end(),
          [&](const v1::ParetoPoint& other) { return Beats(other, point); })) {
    return false;
  }
  front_.erase(std::remove_if(front_.begin(), front_.end(),
                              [&](const v1::ParetoPoint& other) {
                                return Beats(point, other);
                              }),
               front_.end());
  if (front_.size() >= kMaxFront) return false;
  front_.push_back(point);
  return true;
}

absl::Status ProgramEvents::OnRanks(const Fields& fields, News* news) {
  ASSIGN_OR_RETURN(const int64_t step, fields.Count("step"));
  const nlohmann::json* const ranks = fields.Object("ranks");
  if (ranks == nullptr || ranks->size() > kMaxLayers) {
    return absl::InvalidArgumentError("\"ranks\" is no object of layers");
  }
  v1::RankSnapshot snapshot;
  snapshot.set_step(step);
  for (const auto& [name, bonds] : ranks->items()) {
    if (!bonds.is_array() || bonds.size() > kMaxBonds) {
      return absl::InvalidArgumentError("the ranks of a layer are no list");
    }
    v1::LayerRanks& layer = *snapshot.add_layers();
    layer.set_layer(TruncateUtf8(name, kMaxTextBytes));
    layer.set_layer_class(kLayerClass);
    for (const nlohmann::json& bond : bonds) {
      const double value = bond.is_number() ? bond.get<double>() : -1;
      if (!(value >= 0 && value <= std::numeric_limits<int32_t>::max())) {
        return absl::InvalidArgumentError("a rank is no number");
      }
      layer.add_current(static_cast<int32_t>(value));
    }
    const auto [initial, added] = initial_ranks_.try_emplace(
        layer.layer(), layer.current().begin(), layer.current().end());
    for (const int32_t rank : initial->second) layer.add_initial(rank);
  }
  *news->events.emplace_back().mutable_rank_snapshot() = std::move(snapshot);
  return absl::OkStatus();
}

absl::Status ProgramEvents::OnCheckpoint(const Fields& fields, News* news) {
  Saved saved;
  ASSIGN_OR_RETURN(saved.step, fields.Count("step"));
  ASSIGN_OR_RETURN(saved.path, fields.Text("path"));
  news->saved = std::move(saved);
  return absl::OkStatus();
}

absl::Status ProgramEvents::OnEnded(const Fields& fields) {
  ASSIGN_OR_RETURN(step_, fields.Count("step"));
  Ended ended;
  ASSIGN_OR_RETURN(ended.outcome, fields.Text("outcome"));
  if (const auto error = fields.Text("error"); error.ok()) {
    ended.error = TruncateUtf8(*error, kMaxTextBytes);
  }
  ended_ = std::move(ended);
  return absl::OkStatus();
}

v1::TrainingResult ProgramEvents::Result(bool finished) const {
  v1::TrainingResult result;
  result.set_step(step_);
  if (validated_) result.set_validation_loss(validation_loss_);
  result.set_size_parameters(size_);
  result.set_size_bytes(size_ * static_cast<int64_t>(sizeof(float)));
  for (const v1::ParetoPoint& point : front_)
    *result.add_pareto_front() = point;
  if (!finished) {
    result.set_reason("asked to end early");
    return result;
  }
  const bool told = ended_ && ended_->outcome == "target_met";
  const bool met =
      std::any_of(front_.begin(), front_.end(), [&](const auto& point) {
        return point.validation_loss() <= options_.target_loss &&
               point.size_parameters() <= options_.target_parameters;
      });
  if (HasTargets() && met) {
    result.set_outcome(v1::TARGET_MET);
    result.set_reason("a validation met loss and size");
  } else if (HasTargets()) {
    result.set_outcome(v1::TARGET_MISSED);
    result.set_reason("the program ended before its targets were met");
  } else {
    result.set_outcome(v1::COMPLETED);
    result.set_reason(told       ? "the program met targets of its own"
                      : started_ ? "all steps ran"
                                 : "the program ended");
  }
  return result;
}

}  // namespace comera::trainer
