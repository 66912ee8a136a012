// Serves POST /v1/jobs:parse: a job file's text becomes a spec.
#include "server/http/parse_job.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comera/rpc/error_details.pb.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/job_text.h"
#include "server/http/json_text.h"

namespace comera::server {
namespace {

constexpr size_t kMaxName = 200;
constexpr int kMaxViolations = 100;

bool IsFieldPath(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '[' ||
                  c == ']';
         });
}

// Reads a line such as "job.yaml:12: model.hiden: unknown field"; returns the
// line's number, 0 if it has none.
int AddViolation(std::string rest, const std::string& name,
                 google::rpc::BadRequest* bad_request) {
  auto* violation = bad_request->add_field_violations();
  violation->set_field("text");
  int line = 0;
  const size_t colon = rest.find(": ");
  if (absl::StartsWith(rest, name + ":") && colon > name.size() &&
      colon != std::string::npos &&
      absl::SimpleAtoi(rest.substr(name.size() + 1, colon - name.size() - 1),
                       &line)) {
    rest = rest.substr(colon + 2);
    const size_t field_end = rest.find(": ");
    if (field_end != std::string::npos &&
        IsFieldPath(rest.substr(0, field_end))) {
      violation->set_field(absl::StrCat("spec.", rest.substr(0, field_end)));
      rest = rest.substr(field_end + 2);
    }
  }
  violation->set_description(line > 0 ? absl::StrCat("line ", line, ": ", rest)
                                      : rest);
  return line;
}

// An error with a violation for each line of the text's mistakes.
absl::Status TextError(const absl::Status& status, const std::string& name) {
  google::rpc::ErrorInfo info;
  info.set_domain("comera");
  info.set_reason("JOB_FILE");
  google::rpc::BadRequest bad_request;
  for (absl::string_view mistake : absl::StrSplit(status.message(), '\n')) {
    if (bad_request.field_violations_size() == kMaxViolations) break;
    const int line = AddViolation(std::string(mistake), name, &bad_request);
    if (line > 0 && info.metadata().empty()) {
      (*info.mutable_metadata())["line"] = absl::StrCat(line);
    }
  }
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  details.add_details()->PackFrom(info);
  details.add_details()->PackFrom(bad_request);
  absl::Status result(status.code(), status.message());
  result.SetPayload(kStatusDetailsUrl, absl::Cord(details.SerializeAsString()));
  return result;
}

}  // namespace

absl::StatusOr<JobText> ParseJobBody(std::string_view body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  const auto bad = [](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     ": the body is {\"text\": \"...\", \"fileName\": "
                     "\"job.yaml\"}, or the text itself as text/plain"));
  };
  if (!json.is_object() || !json.contains("text") ||
      !json["text"].is_string()) {
    return bad("text: missing");
  }
  JobText job;
  job.text = json["text"].get<std::string>();
  if (!json.contains("fileName")) return job;
  if (!json["fileName"].is_string()) return bad("fileName: must be a string");
  job.file_name = json["fileName"].get<std::string>();
  return job;
}

absl::StatusOr<std::string> ParseJobText(JobText job) {
  if (job.file_name.size() > kMaxName) {
    return absl::InvalidArgumentError("fileName: too long");
  }
  if (job.file_name.empty()) {
    const size_t first = job.text.find_first_not_of(" \t\r\n");
    job.file_name = first != std::string::npos && job.text[first] == '{'
                        ? "job.json"
                        : "job.yaml";
  }
  ASSIGN_OR_RETURN(const JobFileFormat format, FormatOf(job.file_name));
  const auto spec = ParseJobFile(job.text, job.file_name, format);
  if (!spec.ok()) return TextError(spec.status(), job.file_name);
  ASSIGN_OR_RETURN(
      const std::string spec_json,
      WireToJson(v1::JobSpec::descriptor(), spec->SerializeAsString()));
  return absl::StrCat("{\"spec\":", spec_json, "}");
}

}  // namespace comera::server
