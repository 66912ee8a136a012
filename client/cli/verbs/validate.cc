// comera validate: checks a job file without submitting it.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/spec_input.h"
#include "client/cli/verbs/sweep_submit.h"
#include "client/cli/verbs/verbs.h"
#include "proto/job_defaults.h"

namespace comera::client {
namespace {

struct Arguments {
  SpecInput spec;
  bool remote = false;
  bool print = false;
};

// When the job would start, behind "valid".
std::string StartText(const v1::Forecast& forecast) {
  if (forecast.processes_now() > 0) {
    return absl::StrCat(
        ", would start now with ", forecast.processes_now(),
        forecast.processes_now() == 1 ? " process" : " processes");
  }
  std::string text = ", would wait";
  if (forecast.position() > 0) {
    absl::StrAppend(&text, " behind ", forecast.position(),
                    forecast.position() == 1 ? " job" : " jobs");
  }
  if (forecast.has_expected_start()) {
    const absl::Duration left = ToTime(forecast.expected_start()) - absl::Now();
    absl::StrAppend(&text, " for about ",
                    DurationText(std::max(left, absl::Seconds(1))));
  }
  if (!forecast.blocked_by().empty()) {
    absl::StrAppend(&text, ": ", Printable(forecast.blocked_by()));
  }
  return text;
}

int Validate(const Arguments& arguments, const Session& session) {
  const std::optional<JobOrSearch> spec =
      ReadJobOrSearch(arguments.spec, session);
  if (!spec) return kExitClientError;
  std::string start;
  if (arguments.remote && spec->is_search) {
    const int code = SubmitSweep(spec->search, {"", false, true}, session);
    if (code != kExitOk) return code;
  } else if (arguments.remote) {
    TrainingClient::SubmitOptions options;
    options.validate_only = true;
    const absl::StatusOr<v1::Job> job =
        session.Connect()->Submit(spec->job, options);
    if (!job.ok()) return session.FailRpc(job.status());
    start = StartText(job->forecast());
  }
  // Programs that ask for JSON or YAML get the job, too.
  if (arguments.print || session.output != OutputFormat::kTable) {
    const v1::JobSpec filled = WithDefaults(spec->job);
    *session.env.out << (session.output == OutputFormat::kJson
                             ? ToJson(filled, /*one_line=*/false)
                             : ToYaml(filled));
  }
  if (!arguments.print) {
    session.Note(absl::StrCat(arguments.spec.file, ": valid", start));
  }
  return kExitOk;
}

}  // namespace

Verb ValidateVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"validate", "Check a job file", SpecArguments(&arguments->spec),
               nullptr};
  verb.arguments.push_back(
      {"--remote", "Ask the coordinator, too", &arguments->remote, false, {}});
  verb.arguments.push_back({"--print",
                            "Print the job with all defaults",
                            &arguments->print,
                            false,
                            {}});
  verb.examples =
      R"(  comera validate job.yaml
  comera validate job.yaml --set model.heads=8 --print
  comera validate job.yaml --remote    # and when it would start)";
  verb.run = [=] { return Validate(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
