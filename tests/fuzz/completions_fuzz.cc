// Fuzzes what the port of completions makes of a request: its JSON body, and
// the headers that say whose it is. The first byte chooses which one.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/call_metadata.h"
#include "common/http/http_message.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/completions/completion_request.h"
#include "worker/completions/request_checks.h"

namespace comera::worker {
namespace {

// No message of an error is longer: names are cut before they are repeated.
constexpr size_t kMostMessage = 512;
constexpr int kMostTokens = 65536;
constexpr int kMostStops = 16;
constexpr size_t kMostStopBytes = 256;

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~'; });
}

void CheckError(const absl::Status& status) {
  Check(absl::IsInvalidArgument(status), "not the caller's error");
  const absl::string_view message = status.message();
  Check(!message.empty() && message.size() <= kMostMessage,
        "a message as long as the caller likes");
  Check(IsPrintable(message), "a message that is not printable");
}

void Body(const std::string& body) {
  const absl::StatusOr<CompletionRequest> request =
      ParseCompletionRequest(body);
  if (!request.ok()) return CheckError(request.status());
  const v1::GenerateRequest& generate = request->generate;
  Check(generate.name().size() + generate.prompt().size() <= body.size(),
        "more text than the body has");
  Check(generate.max_tokens() >= 1 && generate.max_tokens() <= kMostTokens,
        "an impossible number of tokens");
  Check(generate.top_k() >= 0, "a negative number of choices");
  Check(!generate.has_temperature() || (std::isfinite(generate.temperature()) &&
                                        generate.temperature() >= 0),
        "an impossible temperature");
  Check(
      !generate.has_top_p() || (generate.top_p() > 0 && generate.top_p() <= 1),
      "an impossible share");
  Check(generate.stop_size() <= kMostStops, "too many ends");
  for (const std::string& stop : generate.stop()) {
    Check(!stop.empty() && stop.size() <= kMostStopBytes,
          "an end of an impossible length");
  }
  Check(request->stream || !request->include_usage, "a last event of none");
  // The model's process gets it as a message, which takes UTF-8 alone.
  v1::GenerateRequest again;
  Check(again.ParseFromString(generate.SerializeAsString()), "not UTF-8");
}

void Headers(FuzzInput input) {
  HttpRequest request;
  const bool local = input.Choose(2) == 0;
  request.peer = local ? "http:127.0.0.1:40000" : "http:192.0.2.7:40000";
  request.tls = input.Choose(2) == 1;
  for (const char* name : {"Host", "Origin", "Authorization", "Content-Type"}) {
    std::string value = input.Part();
    if (!value.empty()) request.headers.emplace_back(name, std::move(value));
  }
  CheckJsonBody(request).IgnoreError();
  const absl::StatusOr<std::string> ticket = TicketOfRequest(request);
  if (!ticket.ok()) return;
  if (!ticket->empty()) {
    Check(absl::StartsWith(*ticket, kTicketPrefix) && IsPrintable(*ticket),
          "a ticket that is none");
    return;
  }
  Check(local, "another machine without a ticket");
  const std::string* const host = FindHeader(request.headers, "Host");
  const std::string* const origin = FindHeader(request.headers, "Origin");
  Check(host != nullptr, "a call that names no host");
  Check(origin == nullptr || absl::EndsWith(absl::AsciiStrToLower(*origin),
                                            absl::AsciiStrToLower(*host)),
        "a page of another site");
}

}  // namespace
}  // namespace comera::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  if (input.Choose(2) == 0) {
    comera::worker::Body(input.Rest());
  } else {
    comera::worker::Headers(input);
  }
  return 0;
}
