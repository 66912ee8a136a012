// Tells the life of a job as a trace of OpenTelemetry, in the JSON form of OTLP
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
#ifndef COMERA_CLIENT_EXPORT_OTLP_TRACE_H_
#define COMERA_CLIENT_EXPORT_OTLP_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "nlohmann/json.hpp"

namespace comera::client {

// Builds the trace of one job from its events: a span for the job, and below it
// one for each state in which it was; incidents, checkpoints and the starts of
// attempts are events of these. A value type.
class OtlpTraceBuilder {
 public:
  explicit OtlpTraceBuilder(const v1::Job& job);

  // Adds an event; events come in order.
  void Add(const v1::JobEvent& event);

  // The body of a call of /v1/traces with what has ended: the spans of states
  // that the job has left, and, if `job` is final, that of the job itself. The
  // same job gives the same ids each time.
  nlohmann::json Export(const v1::Job& job) const;

  // The number of spans in Export().
  size_t CountSpans(const v1::Job& job) const;

 private:
  // A state in which the job was.
  struct Phase {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    int64_t attempt = 0;
    int64_t begin_ns = 0;
    // 0: it is in it.
    int64_t end_ns = 0;
    std::string reason;
    // Events within it, as OTLP has them.
    nlohmann::json events = nlohmann::json::array();
  };

  nlohmann::json SpanOf(size_t index) const;
  nlohmann::json JobSpan(const v1::Job& job) const;

  const std::string name_;
  std::vector<Phase> phases_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_OTLP_TRACE_H_
