// Turns a job's events into columns of figures.
#include "server/view/series_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "server/view/series_points.h"

namespace comera::server {
namespace {

using google::protobuf::FieldDescriptor;

constexpr int32_t kMaxPoints = 10000;
constexpr int kMaxMetrics = 100;
// The size that an answer may have.
constexpr size_t kMetricBytes = 2 << 20;
constexpr size_t kSnapshotBytes = 1 << 20;
constexpr size_t kParetoBytes = 512 << 10;
// The size of a point: a step and two doubles.
constexpr size_t kPointBytes = 21;

struct SeriesField {
  const FieldDescriptor* field;
  // Has values for some rows only.
  bool sparse;
};

bool IsTarget(const FieldDescriptor& field) {
  return field.name() == "target_loss" ||
         field.name() == "target_size_parameters";
}

const std::vector<SeriesField>& SeriesFields() {
  static const auto* const fields = [] {
    auto* all = new std::vector<SeriesField>;
    const auto* descriptor = v1::StepMetrics::descriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      if (field->number() == v1::StepMetrics::kStepFieldNumber) continue;
      all->push_back({field, field->has_presence() || IsTarget(*field)});
    }
    return all;
  }();
  return *fields;
}

// By name; -1: none.
int FindField(const std::string& name) {
  static const auto* const places = [] {
    auto* all = new std::map<std::string, int>;
    for (const SeriesField& one : SeriesFields()) {
      const int place = static_cast<int>(all->size());
      (*all)[one.field->name()] = place;
    }
    return all;
  }();
  const auto it = places->find(name);
  return it == places->end() ? -1 : it->second;
}

double Number(const v1::StepMetrics& metrics, const FieldDescriptor* field) {
  const google::protobuf::Reflection& reflection = *metrics.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(metrics, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(reflection.GetInt64(metrics, field));
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(metrics, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(metrics, field) ? 1 : 0;
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnumValue(metrics, field);
    default:
      break;
  }
  const auto& duration = static_cast<const google::protobuf::Duration&>(
      reflection.GetMessage(metrics, field));
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

bool IsSet(const v1::StepMetrics& metrics, const FieldDescriptor* field) {
  if (field->has_presence()) {
    return metrics.GetReflection()->HasField(metrics, field);
  }
  return Number(metrics, field) != 0;
}

// The first sequence beyond `after`.
size_t FirstAfter(const std::vector<int64_t>& sequences, int64_t after) {
  return std::upper_bound(sequences.begin(), sequences.end(), after) -
         sequences.begin();
}

template <typename T>
size_t Capacity(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

}  // namespace

absl::Status CheckSeriesRequest(const v1::ReadSeriesRequest& request) {
  if (request.max_points() < 1 || request.max_points() > kMaxPoints) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_points: must be 1 to ", kMaxPoints));
  }
  if (request.after_sequence() < 0) {
    return absl::InvalidArgumentError("after_sequence: must not be negative");
  }
  if (request.metrics_size() > kMaxMetrics) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics: at most ", kMaxMetrics));
  }
  for (int i = 0; i < request.metrics_size(); ++i) {
    if (FindField(request.metrics(i)) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("metrics[", i,
                       "]: must be a field of StepMetrics, as loss or "
                       "validation_loss"));
    }
  }
  return absl::OkStatus();
}

SeriesTable::SeriesTable() : columns_(SeriesFields().size()) {}

template <typename Message>
void SeriesTable::Messages::Add(int64_t sequence, const Message& message) {
  sequences.push_back(sequence);
  steps.push_back(message.step());
  bodies.push_back(message.SerializeAsString());
  bytes += bodies.back().capacity();
}

void SeriesTable::Messages::Truncate(int64_t last_step) {
  while (!steps.empty() && steps.back() > last_step) {
    bytes -= bodies.back().capacity();
    sequences.pop_back();
    steps.pop_back();
    bodies.pop_back();
  }
}

void SeriesTable::Add(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kMetrics:
      return AddMetrics(event);
    case v1::JobEvent::kRankSnapshot:
      return snapshots_.Add(event.sequence(), event.rank_snapshot());
    case v1::JobEvent::kParetoPoint:
      return points_.Add(event.sequence(), event.pareto_point());
    case v1::JobEvent::kRunInfo:
      run_info_ = event.run_info();
      has_run_info_ = true;
      return Truncate(run_info_.resumed_from_step());
    default:
      return;
  }
}

void SeriesTable::AddMetrics(const v1::JobEvent& event) {
  const v1::StepMetrics& metrics = event.metrics();
  const auto row = static_cast<uint32_t>(steps_.size());
  sequences_.push_back(event.sequence());
  steps_.push_back(metrics.step());
  times_.push_back(static_cast<double>(event.time().seconds()) +
                   1e-9 * event.time().nanos());
  const std::vector<SeriesField>& fields = SeriesFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    Column& column = columns_[i];
    if (fields[i].sparse) {
      if (!IsSet(metrics, fields[i].field)) continue;
      column.rows.push_back(row);
      column.used = true;
    }
    const double value = Number(metrics, fields[i].field);
    column.values.push_back(value);
    if (value != 0) column.used = true;
  }
}

void SeriesTable::Truncate(int64_t last_step) {
  snapshots_.Truncate(last_step);
  points_.Truncate(last_step);
  size_t rows = steps_.size();
  while (rows > 0 && steps_[rows - 1] > last_step) --rows;
  sequences_.resize(rows);
  steps_.resize(rows);
  times_.resize(rows);
  for (size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    size_t kept = rows;
    if (SeriesFields()[i].sparse) {
      kept = std::lower_bound(column.rows.begin(), column.rows.end(), rows) -
             column.rows.begin();
      column.rows.resize(kept);
    }
    column.values.resize(kept);
  }
}

void SeriesTable::ReadMetric(size_t place, size_t max_points, int64_t after,
                             v1::MetricSeries* series) const {
  const Column& from = columns_[place];
  const SeriesField& field = SeriesFields()[place];
  series->set_metric(field.field->name());
  SeriesColumn column;
  column.sequences = &sequences_;
  column.rows = field.sparse ? &from.rows : nullptr;
  column.values = &from.values;
  size_t begin = FirstAfter(sequences_, after);
  if (field.sparse) {
    begin = std::lower_bound(from.rows.begin(), from.rows.end(), begin) -
            from.rows.begin();
  }
  const std::vector<size_t> picked = PickPoints(column, begin, max_points);
  const int count = static_cast<int>(picked.size());
  series->mutable_steps()->Reserve(count);
  series->mutable_values()->Reserve(count);
  series->mutable_wall_times()->Reserve(count);
  for (size_t i : picked) {
    const size_t row = column.row(i);
    series->mutable_steps()->AddAlreadyReserved(steps_[row]);
    series->mutable_values()->AddAlreadyReserved(from.values[i]);
    series->mutable_wall_times()->AddAlreadyReserved(times_[row]);
  }
}

template <typename Message>
void SeriesTable::ReadMessages(
    const Messages& from, size_t max_points, int64_t after, size_t max_bytes,
    google::protobuf::RepeatedPtrField<Message>* to) {
  const size_t begin = FirstAfter(from.sequences, after);
  size_t largest = 1;
  for (size_t i = begin; i < from.bodies.size(); ++i) {
    largest = std::max(largest, from.bodies[i].size());
  }
  const size_t fitting = std::max<size_t>(1, max_bytes / largest);
  for (size_t i :
       PickEvenly(from.sequences, begin, std::min(max_points, fitting))) {
    to->Add()->ParseFromString(from.bodies[i]);
  }
}

v1::JobSeries SeriesTable::Read(const v1::ReadSeriesRequest& request) const {
  std::vector<size_t> places;
  for (const std::string& name : request.metrics()) {
    const size_t place = FindField(name);
    if (std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(place);
    }
  }
  for (size_t i = 0; i < columns_.size() && request.metrics().empty(); ++i) {
    if (columns_[i].used && !columns_[i].values.empty()) places.push_back(i);
  }
  const int64_t after = request.after_sequence();
  const auto asked = static_cast<size_t>(request.max_points());
  v1::JobSeries series;
  const size_t fitting =
      kMetricBytes / kPointBytes / std::max<size_t>(1, places.size());
  for (size_t place : places) {
    ReadMetric(place, std::min(asked, fitting), after, series.add_series());
  }
  ReadMessages(snapshots_, asked, after, kSnapshotBytes,
               series.mutable_rank_snapshots());
  ReadMessages(points_, asked, after, kParetoBytes,
               series.mutable_pareto_points());
  if (has_run_info_) *series.mutable_run_info() = run_info_;
  return series;
}

size_t SeriesTable::bytes() const {
  size_t total = sizeof(*this) + Capacity(sequences_) + Capacity(steps_) +
                 Capacity(times_);
  for (const Column& column : columns_) {
    total += Capacity(column.rows) + Capacity(column.values);
  }
  for (const Messages* messages : {&snapshots_, &points_}) {
    total += messages->bytes + Capacity(messages->sequences) +
             Capacity(messages->steps) + Capacity(messages->bodies);
  }
  return total;
}

}  // namespace comera::server
