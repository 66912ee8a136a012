// What the HTTP port makes of a request before anybody is called: paths and
// queries to rules and messages, JSON bodies, job files, ranges, headers that
// say who calls, and the archive of the dashboard.
//
// An input begins with a letter for what it is; "r" is a line with verb and
// target, then the body.
#include <memory>
#include <string>

#include "server/http/download.h"
#include "server/http/json_text.h"
#include "server/http/parse_job.h"
#include "server/http/request_message.h"
#include "server/http/openapi/server_rules.h"
#include "server/http/static_files.h"
#include "server/http/who_calls.h"
#include "tests/fuzz/fuzz_input.h"

namespace comera::server {
namespace {

using google::protobuf::Message;

const Router& TheRouter() {
  static const Router* const router = [] {
    auto rules = ServerRules();
    if (!rules.ok()) FuzzFailure(rules.status().ToString());
    return new Router(*std::move(rules));
  }();
  return *router;
}

void CheckError(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) || status.message().empty()) {
    FuzzFailure("not the caller's error: " + status.ToString());
  }
}

// Checks that a message that was understood is understood again as JSON.
void CheckRoundTrip(const Message& message) {
  const auto json =
      WireToJson(message.GetDescriptor(), message.SerializeAsString());
  if (!json.ok()) FuzzFailure(json.status().ToString());
  const std::unique_ptr<Message> again(message.New());
  const absl::Status status = JsonToMessage(*json, again.get());
  if (!status.ok()) FuzzFailure(*json + ": " + status.ToString());
}

void Request(const std::string& input) {
  const size_t line_end = input.find('\n');
  const std::string line = input.substr(0, line_end);
  const std::string body =
      line_end == std::string::npos ? "" : input.substr(line_end + 1);
  const size_t space = line.find(' ');
  const std::string target =
      space == std::string::npos ? "" : line.substr(space + 1);
  const size_t mark = target.find('?');
  const Router::Match match =
      TheRouter().Find(line.substr(0, space), target.substr(0, mark));
  if (match.rule == nullptr) return;
  const auto query =
      ParseQuery(mark == std::string::npos ? "" : target.substr(mark + 1));
  if (!query.ok()) return CheckError(query.status());
  const auto message = MakeRequestMessage(match, *query, body);
  if (!message.ok()) return CheckError(message.status());
  CheckRoundTrip(**message);
}

void Headers(FuzzInput input) {
  HttpRequest request;
  request.method = input.Choose(2) == 0 ? "GET" : "POST";
  request.tls = input.Choose(2) == 0;
  for (const char* name : {"Host", "Origin", "Cookie", "Authorization"}) {
    std::string value = input.Part();
    if (!value.empty()) request.headers.emplace_back(name, value);
  }
  const auto credentials = FindCredentials(request);
  if (credentials.ok() && credentials->authorization) {
    for (const char c : *credentials->authorization) {
      if (c < 0x20 || c > 0x7e) FuzzFailure("metadata with a control");
    }
  }
  CheckSite(request, HostPolicy{{"known.example"}, true},
            credentials.ok() && credentials->from_cookie)
      .IgnoreError();
}

void Range(const std::string& header) {
  constexpr int64_t kSize = 1000;
  const auto range = ParseRange(header, kSize);
  if (range && (range->offset < 0 || range->size < 0 ||
                range->offset + range->size > kSize)) {
    FuzzFailure("a range beyond the file: " + header);
  }
}

}  // namespace
}  // namespace comera::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace comera::server;  // NOLINT: the entry point has no namespace.
  comera::FuzzInput input(data, size);
  switch (input.Choose(256)) {
    case 'h':
      Headers(input);
      break;
    case 'j':
      if (const auto job = ParseJobText({input.Rest(), ""}); !job.ok()) {
        CheckError(job.status());
      }
      break;
    case 'b':
      if (const auto body = ParseJobBody(input.Rest()); !body.ok()) {
        CheckError(body.status());
      }
      break;
    case 'g':
      Range(input.Rest());
      break;
    case 't':
      if (const auto files = StaticFiles::FromTar(input.Rest()); files.ok()) {
        files->Find("/../etc/passwd");
      }
      break;
    default:
      Request(input.Rest());
  }
  return 0;
}
