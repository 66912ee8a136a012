// Multiplies out the axes of a sweep's grid and words each run's label.

#include "proto/sweep/sweep_runs.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/model_family.h"
#include "proto/spec_field.h"
#include "proto/sweep/random_runs.h"
#include "proto/sweep/sweep_plan.h"
#include "proto/target_quality.h"

namespace comera {
namespace {

constexpr int kMaxFieldAxes = 16;

// The number of values of each axis, the slowest first; an axis without values
// has one, which changes nothing.
std::vector<int64_t> AxisSizes(const v1::SweepGrid& grid) {
  std::vector<int64_t> sizes = {std::max(1, grid.methods_size()),
                                std::max(1, grid.ranks_size())};
  for (const v1::FieldValues& axis : grid.fields()) {
    sizes.push_back(std::max(1, axis.values_size()));
  }
  sizes.push_back(std::max(1, grid.seeds_size()));
  sizes.push_back(std::max(1, grid.targets_size()));
  return sizes;
}

// The bytes that the axes' values have in all runs together, and the number of
// runs.
struct GridSize {
  int64_t runs = 1;
  double value_bytes = 0;
};

// Returns false if the runs together would be too large to make. A double holds
// any product of what a message can hold.
bool CheckBytes(const v1::SweepSpec& spec, size_t runs, double value_bytes,
                size_t max_bytes, SpecChecker& check) {
  const auto job_bytes = static_cast<double>(spec.job().ByteSizeLong());
  const double bytes = job_bytes * static_cast<double>(runs) + value_bytes;
  if (bytes <= static_cast<double>(max_bytes)) return true;
  const bool job = job_bytes * static_cast<double>(runs) >= value_bytes;
  check.Add(job                 ? "job"
            : spec.has_grid()   ? "grid"
            : spec.has_random() ? "random"
                                : "list",
            absl::StrCat("makes ", runs, " runs of ",
                         static_cast<int64_t>(bytes / (1 << 20)),
                         " MiB together, of at most ", max_bytes >> 20,
                         " MiB: upload long lists of files as a "
                         "dataset, or make several sweeps"));
  return false;
}

// Returns false if there are too many runs, they are too large together, or an
// axis is malformed.
bool CheckGrid(const v1::SweepSpec& spec, size_t max_bytes, GridSize* size,
               SpecChecker& check) {
  const v1::SweepGrid& grid = spec.grid();
  if (grid.fields_size() > kMaxFieldAxes) {
    check.Range("grid.fields", grid.fields_size(), 0, kMaxFieldAxes, "entries");
    return false;
  }
  bool sound = true;
  for (int i = 0; i < grid.fields_size(); ++i) {
    const std::string field = absl::StrCat("grid.fields[", i, "]");
    if (grid.fields(i).path().empty()) {
      check.Add(field + ".path", "is missing");
      sound = false;
    }
    if (grid.fields(i).values().empty()) {
      check.Add(field + ".values", "is empty");
      sound = false;
    }
  }
  for (const int64_t axis : AxisSizes(grid)) {
    // Each factor is bounded by the size of a message, so the product does not
    // overflow.
    size->runs *= axis;
    if (size->runs <= kMaxSweepRuns) continue;
    check.Add("grid", absl::StrCat("makes more than ", kMaxSweepRuns, " runs"));
    return false;
  }
  const auto runs = static_cast<double>(size->runs);
  for (const v1::FieldValues& axis : grid.fields()) {
    double bytes = 0;
    for (const std::string& value : axis.values()) {
      bytes += static_cast<double>(value.size() + axis.path().size());
    }
    size->value_bytes += bytes * runs / std::max(1, axis.values_size());
  }
  for (const v1::Target& target : grid.targets()) {
    size->value_bytes += static_cast<double>(target.ByteSizeLong()) * runs /
                         std::max(1, grid.targets_size());
  }
  return CheckBytes(spec, static_cast<size_t>(size->runs), size->value_bytes,
                    max_bytes, check) &&
         sound;
}

bool CheckList(const v1::SweepSpec& spec, SpecChecker& check) {
  if (spec.list_size() > kMaxSweepRuns) {
    check.Range("list", spec.list_size(), 1, kMaxSweepRuns, "runs");
    return false;
  }
  bool sound = true;
  for (int i = 0; i < spec.list_size(); ++i) {
    const auto& fields = spec.list(i).fields();
    for (int f = 0; f < fields.size(); ++f) {
      if (!fields[f].path().empty()) continue;
      check.Add(absl::StrCat("list[", i, "].fields[", f, "].path"),
                "is missing");
      sound = false;
    }
  }
  return sound;
}

template <typename Layer>
void SetRank(int64_t rank, Layer* layer) {
  if (layer->dense()) return;
  layer->clear_ranks();
  layer->add_ranks(rank);
}

void SetMethod(v1::CompressionSpec::Method method, v1::CompressionSpec* c) {
  c->set_method(method);
  if (method != v1::CompressionSpec::GALORE) c->clear_galore();
  if (method != v1::CompressionSpec::LORA) c->clear_lora();
  if (method != v1::CompressionSpec::LTE) c->clear_lte();
  if (method != v1::CompressionSpec::COLA) c->clear_cola();
  if (method == v1::CompressionSpec::COMERA) return;
  c->clear_inner_activation();
  c->clear_embedding();
  c->clear_attention();
  c->clear_ffn_up();
  c->clear_ffn_down();
  c->clear_head();
  c->clear_output();
  c->clear_table();
  c->clear_mlp();
}

void SetRanks(int64_t rank, v1::JobSpec* spec) {
  v1::CompressionSpec* c = spec->mutable_compression();
  switch (c->method()) {
    case v1::CompressionSpec::DENSE:
      return;
    case v1::CompressionSpec::GALORE:
      return c->mutable_galore()->set_rank(rank);
    case v1::CompressionSpec::LORA:
      return c->mutable_lora()->set_rank(rank);
    case v1::CompressionSpec::LTE:
      return c->mutable_lte()->set_rank(rank);
    case v1::CompressionSpec::COLA:
      return c->mutable_cola()->set_rank(rank);
    default:
      break;
  }
  if (spec->model().family() == v1::ModelSpec::DLRM) {
    SetRank(rank, c->mutable_table());
    SetRank(rank, c->mutable_mlp());
    return;
  }
  SetRank(rank, c->mutable_embedding());
  SetRank(rank, c->mutable_attention());
  SetRank(rank, c->mutable_ffn_up());
  SetRank(rank, c->mutable_ffn_down());
  if (HasHeadLayer(spec->model())) SetRank(rank, c->mutable_head());
  if (HasOutputLayer(spec->model())) SetRank(rank, c->mutable_output());
}

void SetTarget(const v1::Target& target, v1::LateStage* late) {
  late->clear_targets();
  const TargetQuality quality = QualityOf(target);
  if (quality.kind != v1::Target::TARGET_QUALITY_NOT_SET) {
    SetQuality(quality, late);
  }
  switch (target.target_size_case()) {
    case v1::Target::kTargetBytes:
      late->set_target_bytes(target.target_bytes());
      break;
    case v1::Target::kTargetParameters:
      late->set_target_parameters(target.target_parameters());
      break;
    case v1::Target::kTargetRatio:
      late->set_target_ratio(target.target_ratio());
      break;
    case v1::Target::TARGET_SIZE_NOT_SET:
      break;
  }
}

// Replaces size targets by 1 if the method keeps the model's size.
void KeepSize(v1::JobSpec* spec) {
  const auto method = spec->compression().method();
  if (method == v1::CompressionSpec::COMERA ||
      method == v1::CompressionSpec::METHOD_UNSPECIFIED ||
      !spec->objective().has_late()) {
    return;
  }
  v1::LateStage* late = spec->mutable_objective()->mutable_late();
  if (late->targets_size() == 0) late->set_target_ratio(1);
  for (v1::Target& target : *late->mutable_targets()) {
    target.set_target_ratio(1);
  }
}

}  // namespace

int CountSweepPoints(const v1::SweepSpec& spec, size_t max_bytes,
                     SpecChecker& check) {
  const int given = (spec.has_grid() ? 1 : 0) + (spec.has_random() ? 1 : 0) +
                    (spec.list_size() > 0 ? 1 : 0);
  if (given != 1) {
    check.Add("grid", "exactly one of grid, list and random must be given");
    return 0;
  }
  if (spec.has_random()) {
    const v1::RandomRuns& random = spec.random();
    if (!CheckRandomRuns(random, check)) return 0;
    const double bytes = static_cast<double>(random.ByteSizeLong());
    return CheckBytes(spec, random.runs(), bytes * random.runs(), max_bytes,
                      check)
               ? random.runs()
               : 0;
  }
  if (spec.has_grid()) {
    GridSize size;
    return CheckGrid(spec, max_bytes, &size, check)
               ? static_cast<int>(size.runs)
               : 0;
  }
  if (!CheckList(spec, check)) return 0;
  double value_bytes = 0;
  for (const v1::SweepPoint& point : spec.list()) {
    value_bytes += static_cast<double>(point.ByteSizeLong());
  }
  return CheckBytes(spec, spec.list_size(), value_bytes, max_bytes, check)
             ? spec.list_size()
             : 0;
}

SweepChange SweepPointAt(const v1::SweepSpec& spec, int index) {
  SweepChange change;
  if (spec.has_random()) {
    for (int f = 0; f < spec.random().fields_size(); ++f) {
      v1::FieldValue* const field = change.point.add_fields();
      field->set_path(spec.random().fields(f).path());
      field->set_value(DrawValue(spec.random(), index, f));
      change.field_sources.push_back(absl::StrCat("random.fields[", f, "]"));
    }
    return change;
  }
  if (!spec.has_grid()) {
    change.point = spec.list(index);
    for (int f = 0; f < change.point.fields_size(); ++f) {
      change.field_sources.push_back(
          absl::StrCat("list[", index, "].fields[", f, "]"));
    }
    return change;
  }
  const v1::SweepGrid& grid = spec.grid();
  std::vector<int64_t> at = AxisSizes(grid);
  int64_t rest = index;
  for (auto axis = at.rbegin(); axis != at.rend(); ++axis) {
    const int64_t size = *axis;
    *axis = rest % size;
    rest /= size;
  }
  auto value = at.begin();
  const auto next = [&value] { return static_cast<int>(*value++); };
  const int method = next();
  if (grid.methods_size() > 0) change.point.set_method(grid.methods(method));
  const int ranks = next();
  if (grid.ranks_size() > 0) change.point.set_ranks(grid.ranks(ranks));
  for (int axis = 0; axis < grid.fields_size(); ++axis) {
    const int at_value = next();
    v1::FieldValue* field = change.point.add_fields();
    field->set_path(grid.fields(axis).path());
    field->set_value(grid.fields(axis).values(at_value));
    change.field_sources.push_back(
        absl::StrCat("grid.fields[", axis, "].values[", at_value, "]"));
  }
  const int seed = next();
  if (grid.seeds_size() > 0) change.point.set_seed(grid.seeds(seed));
  const int target = next();
  if (grid.targets_size() > 0) {
    *change.point.mutable_target() = grid.targets(target);
  }
  return change;
}

std::string SweepLabel(const v1::SweepPoint& point) {
  if (!point.label().empty()) return point.label();
  std::vector<std::string> parts;
  if (point.method() != v1::CompressionSpec::METHOD_UNSPECIFIED) {
    parts.push_back(absl::StrCat(
        "method=", absl::AsciiStrToLower(
                       v1::CompressionSpec::Method_Name(point.method()))));
  }
  if (point.has_ranks()) parts.push_back(absl::StrCat("ranks=", point.ranks()));
  for (const v1::FieldValue& field : point.fields()) {
    const size_t dot = field.path().rfind('.');
    parts.push_back(absl::StrCat(
        dot == std::string::npos ? field.path() : field.path().substr(dot + 1),
        "=", field.value()));
  }
  if (point.has_seed()) parts.push_back(absl::StrCat("seed=", point.seed()));
  if (point.has_target()) {
    const v1::Target& target = point.target();
    const TargetQuality quality = QualityOf(target);
    if (quality.kind != v1::Target::TARGET_QUALITY_NOT_SET) {
      parts.push_back(
          absl::StrCat(absl::AsciiStrToLower(QualityName(quality.kind)), "=",
                       quality.value));
    }
    if (target.has_target_bytes()) {
      parts.push_back(absl::StrCat("bytes=", target.target_bytes()));
    } else if (target.has_target_parameters()) {
      parts.push_back(absl::StrCat("parameters=", target.target_parameters()));
    } else if (target.has_target_ratio()) {
      parts.push_back(absl::StrCat("ratio=", target.target_ratio()));
    }
  }
  return absl::StrJoin(parts, " ");
}

void ApplyChange(const SweepChange& change, v1::JobSpec* spec,
                 SpecChecker& check) {
  const v1::SweepPoint& point = change.point;
  if (point.method() != v1::CompressionSpec::METHOD_UNSPECIFIED) {
    SetMethod(point.method(), spec->mutable_compression());
  }
  if (point.has_ranks()) SetRanks(point.ranks(), spec);
  const bool had_output = HasOutputLayer(spec->model());
  for (int i = 0; i < point.fields_size(); ++i) {
    const v1::FieldValue& field = point.fields(i);
    const absl::Status status = SetSpecField(field.path(), field.value(), spec);
    if (!status.ok()) {
      check.Add(change.field_sources[i],
                absl::StrCat(field.path(), ": ", status.message()));
    }
  }
  // A field that ties the output to the embedding leaves no layer to compress.
  if (had_output && !HasOutputLayer(spec->model())) {
    spec->mutable_compression()->clear_output();
  }
  if (point.has_seed()) spec->mutable_training()->set_seed(point.seed());
  if (point.has_target()) {
    SetTarget(point.target(), spec->mutable_objective()->mutable_late());
  }
  KeepSize(spec);
}

}  // namespace comera
