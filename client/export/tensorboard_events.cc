// Encodes metrics, ranks, Pareto points and texts as TensorBoard summaries.

#include "client/export/tensorboard_events.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/export/flat_spec.h"
#include "client/export/metric_values.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/timestamp.pb.h"

namespace comera::client {
namespace {

using tensorboard::Event;
using tensorboard::HistogramProto;
using tensorboard::Summary;

constexpr int kString = 7;  // TensorFlow's DT_STRING
constexpr int kFloat = 1;   // TensorFlow's DT_FLOAT
constexpr int kMostBuckets = 64;

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

Event At(const google::protobuf::Timestamp& time, int64_t step) {
  Event event;
  event.set_wall_time(Seconds(time));
  event.set_step(step);
  return event;
}

void AddScalar(const std::string& tag, double value, Summary* summary) {
  Summary::Value* added = summary->add_value();
  added->set_tag(tag);
  added->set_simple_value(static_cast<float>(value));
}

// Texts are put at step 0, which no restart discards. In Markdown, four spaces
// in front keep the lines of a text.
Event Text(const google::protobuf::Timestamp& time, const std::string& tag,
           const std::string& text) {
  Event event = At(time, 0);
  Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  tensorboard::TensorProto* tensor = value->mutable_tensor();
  tensor->set_dtype(kString);
  tensor->mutable_tensor_shape()->add_dim()->set_size(1);
  tensor->add_string_val(text);
  return event;
}

// Serialises maps in a fixed order, so that the same job gives the same file.
std::string Bytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

Event HParams(const google::protobuf::Timestamp& time, const std::string& tag,
              const tensorboard::HParamsPluginData& data) {
  Event event = At(time, 0);
  Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  auto* plugin = value->mutable_metadata()->mutable_plugin_data();
  plugin->set_plugin_name("hparams");
  plugin->set_content(Bytes(data));
  // The plug-in reads only the metadata, but values without data are skipped.
  tensorboard::TensorProto* tensor = value->mutable_tensor();
  tensor->set_dtype(kFloat);
  tensor->mutable_tensor_shape();
  tensor->add_float_val(0);
  return event;
}

std::string Indented(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

Event MembersOf(const v1::RankSnapshot& snapshot,
                const google::protobuf::Timestamp& time) {
  Event event = At(time, snapshot.step());
  Summary* summary = event.mutable_summary();
  for (const MetricValue& mean : MeanRanks(snapshot)) {
    AddScalar(mean.name, mean.value, summary);
  }
  for (const v1::LayerRanks& layer : snapshot.layers()) {
    if (layer.current().empty()) continue;
    Summary::Value* value = summary->add_value();
    value->set_tag(absl::StrCat("ranks/", layer.layer()));
    *value->mutable_histo() = HistogramOf(
        std::vector<double>(layer.current().begin(), layer.current().end()));
    for (int bond = 0; bond < layer.current_size(); ++bond) {
      AddScalar(absl::StrCat("bonds/", layer.layer(), "/", bond + 1),
                layer.current(bond), summary);
    }
  }
  return event;
}

}  // namespace

HistogramProto HistogramOf(const std::vector<double>& values) {
  HistogramProto histogram;
  if (values.empty()) return histogram;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  histogram.set_min(*low);
  histogram.set_max(*high);
  histogram.set_num(static_cast<double>(values.size()));
  const double range = *high - *low;
  const int buckets =
      static_cast<int>(std::min<double>(kMostBuckets, std::floor(range) + 1));
  const double width = range < kMostBuckets ? 1 : range / (kMostBuckets - 1);
  std::vector<double> limits;
  for (int i = 0; i < buckets; ++i) limits.push_back(*low + width * (i + 0.5));
  std::vector<double> counts(buckets, 0);
  for (const double value : values) {
    const auto limit = std::lower_bound(limits.begin(), limits.end(), value);
    ++counts[std::min<int>(buckets - 1, limit - limits.begin())];
    histogram.set_sum(histogram.sum() + value);
    histogram.set_sum_squares(histogram.sum_squares() + value * value);
  }
  *histogram.mutable_bucket_limit() = {limits.begin(), limits.end()};
  *histogram.mutable_bucket() = {counts.begin(), counts.end()};
  return histogram;
}

std::vector<Event> BeginningOf(const v1::Job& job,
                               const std::string& job_file) {
  std::vector<Event> events;
  events.push_back(At(job.create_time(), 0));
  events.back().set_file_version("brain.Event:2");
  events.push_back(Text(job.create_time(), "job/file", Indented(job_file)));
  tensorboard::HParamsPluginData data;
  auto* start = data.mutable_session_start_info();
  start->set_group_name(job.name());
  start->set_start_time_secs(Seconds(job.create_time()));
  for (const auto& [name, text] : FlattenSpec(job.spec())) {
    google::protobuf::Value& value = (*start->mutable_hparams())[name];
    double number = 0;
    if (absl::SimpleAtod(text, &number) && std::isfinite(number)) {
      value.set_number_value(number);
    } else if (text == "true" || text == "false") {
      value.set_bool_value(text == "true");
    } else {
      value.set_string_value(text);
    }
  }
  events.push_back(
      HParams(job.create_time(), "_hparams_/session_start_info", data));
  return events;
}

std::vector<Event> EventsOf(const v1::JobEvent& event) {
  std::vector<Event> events;
  switch (event.event_case()) {
    case v1::JobEvent::kRunInfo:
      if (event.attempt() > 1) {
        events.push_back(
            At(event.time(), event.run_info().resumed_from_step() + 1));
        events.back().mutable_session_log()->set_status(
            tensorboard::SessionLog::START);
      }
      break;
    case v1::JobEvent::kMetrics:
      events.push_back(At(event.time(), event.metrics().step()));
      for (const MetricValue& metric : ValuesOf(event.metrics())) {
        AddScalar(metric.name, metric.value, events.back().mutable_summary());
      }
      break;
    case v1::JobEvent::kRankSnapshot:
      events.push_back(MembersOf(event.rank_snapshot(), event.time()));
      break;
    case v1::JobEvent::kParetoPoint: {
      const v1::ParetoPoint& point = event.pareto_point();
      events.push_back(At(event.time(), point.step()));
      Summary* summary = events.back().mutable_summary();
      AddScalar("pareto/validation_loss", point.validation_loss(), summary);
      AddScalar("pareto/parameters",
                static_cast<double>(point.size_parameters()), summary);
      break;
    }
    case v1::JobEvent::kIncident: {
      const v1::Failure& failure = event.incident();
      events.push_back(
          Text(event.time(), "job/incidents",
               absl::StrCat("attempt ", failure.attempt(), ": ",
                            v1::FailureClass_Name(failure.failure_class()),
                            "\n\n", Indented(failure.message()))));
      break;
    }
    case v1::JobEvent::kStateChange:
      events.push_back(
          Text(event.time(), "job/state",
               absl::StrCat(v1::JobState_Name(event.state_change().state()),
                            "\n\n", Indented(event.state_change().reason()))));
      break;
    case v1::JobEvent::kResult: {
      const v1::TrainingResult& result = event.result();
      events.push_back(At(event.time(), result.step()));
      Summary* summary = events.back().mutable_summary();
      AddScalar("result/validation_loss", result.validation_loss(), summary);
      AddScalar("result/parameters",
                static_cast<double>(result.size_parameters()), summary);
      break;
    }
    default:
      break;
  }
  return events;
}

std::vector<Event> EndOf(const v1::Job& job) {
  tensorboard::HParamsPluginData data;
  auto* end = data.mutable_session_end_info();
  end->set_status(job.state() == v1::SUCCEEDED ? 1 : 2);
  end->set_end_time_secs(Seconds(job.end_time()));
  return {HParams(job.end_time(), "_hparams_/session_end_info", data)};
}

}  // namespace comera::client
