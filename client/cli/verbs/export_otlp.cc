// comera export --format otlp: sends jobs as traces to an OpenTelemetry
// collector.
#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/export_formats.h"
#include "client/cli/verbs/export_source.h"
#include "client/export/otlp_trace.h"
#include "common/http/web_fetch.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "proto/job_state.h"

namespace comera::client {
namespace {

absl::Status Post(std::string url, const nlohmann::json& trace,
                  const std::atomic<bool>* cancelled) {
  while (absl::EndsWith(url, "/")) url.pop_back();
  WebRequest request;
  request.url = absl::StrCat(url, "/v1/traces");
  request.plain_http = true;
  request.body = JsonText(trace);
  request.headers = {{"Content-Type", "application/json"}};
  request.cancelled = cancelled;
  ASSIGN_OR_RETURN(const WebAnswer answer, FetchWeb(request));
  if (answer.code >= 200 && answer.code < 300) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the collector answers ", answer.code));
}

// Returns the number of spans that were sent.
absl::StatusOr<size_t> ExportJob(const v1::Job& job,
                                 const ExportArguments& arguments,
                                 TrainingClient& client,
                                 const std::atomic<bool>* cancelled) {
  OtlpTraceBuilder builder(job);
  ASSIGN_OR_RETURN(const int64_t newest, NewestEvent(client, job.name()));
  const bool to_end = arguments.follow || IsFinal(job.state());
  v1::Job last = job;
  if (newest > 0 || to_end) {
    TrainingClient::WatchOptions options;
    // The stream of an ended job ends by itself after its last event.
    if (!to_end) options.until_sequence = newest;
    ASSIGN_OR_RETURN(
        const v1::Job watched,
        client.Watch(job.name(), options, {},
                     [&](const v1::JobEvent& event) { builder.Add(event); }));
    if (to_end) last = watched;
  }
  const size_t spans = builder.CountSpans(last);
  if (spans > 0) {
    RETURN_IF_ERROR(Post(arguments.to, builder.Export(last), cancelled));
  }
  return spans;
}

}  // namespace

int ExportOtlp(const ExportArguments& arguments, const Session& session) {
  if (!IsServerAddress(arguments.to)) {
    return session.Fail(
        "--to: traces go to a collector, http://HOST:4318 or https://HOST",
        kExitUsage);
  }
  const auto source =
      FindExportSource(arguments.what, arguments.follow, session);
  if (!source.ok()) return FailExportSource(source.status(), session);
  const auto client = session.Connect();
  std::atomic<bool> stop{false};
  Interrupts interrupts([&] {
    stop = true;
    client->Stop();
  });
  size_t spans = 0;
  for (const v1::Job& job : source->jobs) {
    const auto exported = ExportJob(job, arguments, *client, &stop);
    if (interrupts.happened()) {
      return session.Fail("interrupted; the same command sends all again",
                          kExitInterrupted);
    }
    if (!exported.ok()) {
      return session.Fail(
          absl::StrCat(arguments.to, ": ", exported.status().message()),
          kExitClientError);
    }
    spans += *exported;
  }
  session.Note(absl::StrCat(spans, " spans of ", source->jobs.size(),
                            " jobs went to ", arguments.to));
  return kExitOk;
}

}  // namespace comera::client
