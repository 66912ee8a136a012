#ifndef COMERA_SERVER_HTTP_PARSE_JOB_H_
#define COMERA_SERVER_HTTP_PARSE_JOB_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace comera::server {

// POST /v1/jobs:parse: what people paste becomes a spec.
struct JobText {
  std::string text;
  // Its ending says the format; empty: YAML, or JSON where it looks so.
  std::string file_name;
};

// Reads the body {"text": "...", "fileName": "job.yaml"}. InvalidArgument.
absl::StatusOr<JobText> ParseJobBody(std::string_view body);

// Returns {"spec": {...}}. InvalidArgument: ErrorInfo's reason is JOB_FILE and
// its metadata has `line`, and a BadRequest has the field.
absl::StatusOr<std::string> ParseJobText(JobText job);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_PARSE_JOB_H_
