// Implements OtlpTraceBuilder.
#include "client/export/otlp_trace.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/version.h"
#include "proto/job_state.h"

namespace comera::client {
namespace {

using nlohmann::json;

constexpr int kInternal = 1;  // SpanKind
constexpr int kOk = 1;        // StatusCode
constexpr int kError = 2;

int64_t Nanoseconds(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000'000'000 + time.nanos();
}

// The first `digits` hexadecimal digits of the text's SHA-256, which are never
// all 0, as ids must not be.
std::string IdOf(const std::string& text, size_t digits) {
  Sha256Stream digest;
  digest.Add(text);
  return digest.Finish().substr(0, digits);
}

std::string TraceId(const std::string& job) {
  return IdOf(absl::StrCat("trace ", job), 32);
}

std::string SpanId(const std::string& job, const std::string& part) {
  return IdOf(absl::StrCat("span ", job, " ", part), 16);
}

json Attribute(const std::string& key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

// 64-bit numbers are text in this form.
json Attribute(const std::string& key, int64_t value) {
  return {{"key", key}, {"value", {{"intValue", absl::StrCat(value)}}}};
}

json Event(int64_t time_ns, const std::string& name, json attributes) {
  return {{"timeUnixNano", absl::StrCat(time_ns)},
          {"name", name},
          {"attributes", std::move(attributes)}};
}

json Span(const std::string& job, const std::string& id,
          const std::string& name, int64_t begin_ns, int64_t end_ns) {
  return {{"traceId", TraceId(job)},
          {"spanId", id},
          {"name", name},
          {"kind", kInternal},
          {"startTimeUnixNano", absl::StrCat(begin_ns)},
          {"endTimeUnixNano", absl::StrCat(end_ns)}};
}

}  // namespace

OtlpTraceBuilder::OtlpTraceBuilder(const v1::Job& job) : name_(job.name()) {
  Phase first;
  first.state = v1::QUEUED;
  first.begin_ns = Nanoseconds(job.create_time());
  phases_.push_back(std::move(first));
}

void OtlpTraceBuilder::Add(const v1::JobEvent& event) {
  const int64_t time = Nanoseconds(event.time());
  Phase& phase = phases_.back();
  switch (event.event_case()) {
    case v1::JobEvent::kStateChange: {
      const v1::StateChange& change = event.state_change();
      if (change.state() == phase.state && phase.end_ns == 0) {
        phase.reason = change.reason();
        return;
      }
      if (phase.end_ns == 0) phase.end_ns = time;
      if (IsFinal(change.state())) return;
      Phase next;
      next.state = change.state();
      next.attempt = event.attempt();
      next.begin_ns = time;
      next.reason = change.reason();
      phases_.push_back(std::move(next));
      return;
    }
    case v1::JobEvent::kIncident:
      phase.events.push_back(Event(
          time, "incident",
          {Attribute("comera.failure_class",
                     v1::FailureClass_Name(event.incident().failure_class())),
           Attribute("exception.message", event.incident().message())}));
      return;
    case v1::JobEvent::kCheckpoint:
      phase.events.push_back(Event(
          time, "checkpoint",
          json::array({Attribute("comera.step", event.checkpoint().step())})));
      return;
    case v1::JobEvent::kRunInfo:
      phase.events.push_back(Event(
          time, "training",
          json::array({Attribute("comera.resumed_from_step",
                                 event.run_info().resumed_from_step())})));
      return;
    default:
      return;
  }
}

json OtlpTraceBuilder::SpanOf(size_t index) const {
  const Phase& phase = phases_[index];
  const std::string state =
      absl::AsciiStrToLower(v1::JobState_Name(phase.state));
  json span = Span(name_, SpanId(name_, absl::StrCat(index)), state,
                   phase.begin_ns, phase.end_ns);
  span["parentSpanId"] = SpanId(name_, "job");
  span["attributes"] = {Attribute("comera.attempt", phase.attempt),
                        Attribute("comera.reason", phase.reason)};
  span["events"] = phase.events;
  return span;
}

json OtlpTraceBuilder::JobSpan(const v1::Job& job) const {
  const std::string& title = job.spec().display_name();
  json span =
      Span(name_, SpanId(name_, "job"), title.empty() ? job.name() : title,
           Nanoseconds(job.create_time()), Nanoseconds(job.end_time()));
  json attributes = {
      Attribute("comera.job", job.name()),
      Attribute("comera.queue", job.spec().queue()),
      Attribute("comera.user", job.user()),
      Attribute("comera.state", v1::JobState_Name(job.state())),
      Attribute("comera.attempts", job.attempt()),
      Attribute("comera.processes", job.spec().resources().processes()),
      Attribute("comera.parameters", job.progress().size_parameters())};
  if (job.outcome() != v1::OUTCOME_UNSPECIFIED) {
    attributes.push_back(
        Attribute("comera.outcome", v1::Outcome_Name(job.outcome())));
  }
  if (!job.sweep().empty()) {
    attributes.push_back(Attribute("comera.sweep", job.sweep()));
  }
  for (const auto& [key, value] : job.spec().labels()) {
    attributes.push_back(Attribute(absl::StrCat("comera.label.", key), value));
  }
  span["attributes"] = std::move(attributes);
  if (job.state() == v1::FAILED) {
    span["status"] = {{"code", kError}, {"message", job.failure().message()}};
  } else if (job.state() == v1::SUCCEEDED) {
    span["status"] = {{"code", kOk}};
  }
  return span;
}

json OtlpTraceBuilder::Export(const v1::Job& job) const {
  json spans = json::array();
  if (IsFinal(job.state())) spans.push_back(JobSpan(job));
  for (size_t i = 0; i < phases_.size(); ++i) {
    if (phases_[i].end_ns > 0) spans.push_back(SpanOf(i));
  }
  const json resource = {
      {"attributes",
       {Attribute("service.name", std::string("comera")),
        Attribute("service.version", std::string(kVersion))}}};
  const json scope = {{"scope", {{"name", "comera"}, {"version", kVersion}}},
                      {"spans", std::move(spans)}};
  return {
      {"resourceSpans", json::array({{{"resource", resource},
                                      {"scopeSpans", json::array({scope})}}})}};
}

size_t OtlpTraceBuilder::CountSpans(const v1::Job& job) const {
  size_t spans = IsFinal(job.state()) ? 1 : 0;
  for (const Phase& phase : phases_) spans += phase.end_ns > 0 ? 1 : 0;
  return spans;
}

}  // namespace comera::client
