// Submits sweeps and follows them to their end.
#include "client/cli/verbs/sweep_submit.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/live/sweep_view.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/sweep_connection.h"
#include "proto/search_portfolio.h"
#include "proto/sweep_plan.h"

namespace comera::client {

v1::SweepSpec SearchOf(const v1::JobSpec& job) {
  v1::SweepSpec spec;
  *spec.mutable_job() = job;
  return spec;
}

bool CheckSweep(const v1::SweepSpec& spec, const std::string& file,
                const Session& session) {
  std::vector<FieldViolation> violations;
  PlanSweep(spec, &violations);
  for (const FieldViolation& violation : violations) {
    session.Fail(Printable(absl::StrCat(file, ": ", violation.field, ": ",
                                        violation.description)),
                 kExitClientError);
  }
  return violations.empty();
}

std::optional<v1::JobSpec> ReadCheckedSpec(const SpecInput& input,
                                           const Session& session) {
  absl::StatusOr<v1::JobSpec> spec = ReadSpec(input, session);
  if (!spec.ok()) {
    session.Fail(Printable(std::string(spec.status().message())),
                 kExitClientError);
    return std::nullopt;
  }
  const bool sound = IsSearch(*spec)
                         ? CheckSweep(SearchOf(*spec), input.file, session)
                         : CheckSpec(*spec, input.file, session);
  if (!sound) return std::nullopt;
  return *std::move(spec);
}

int SubmitSweep(const v1::SweepSpec& spec, const SweepSubmission& submission,
                const Session& session) {
  const auto client = ConnectSweeps(session);
  if (!client.ok()) return session.FailRpc(client.status());
  SweepClient::SubmitOptions options;
  options.request_id = submission.request_id;
  options.validate_only = submission.dry_run;
  const absl::StatusOr<v1::Sweep> sweep = (*client)->Submit(spec, options);
  if (!sweep.ok()) return session.FailRpc(sweep.status());
  if (submission.watch && !submission.dry_run) {
    session.Note(absl::StrCat("submitted ", sweep->name(), ", ",
                              sweep->runs_size(), " runs"));
    return WatchSweepVerb(session, sweep->name());
  }
  if (session.output != OutputFormat::kTable) {
    session.Print(*sweep, /*one_line=*/false);
  } else if (submission.dry_run) {
    *session.env.out << RunTable(*sweep, session.Layout()) << std::flush;
    session.Note(absl::StrCat(sweep->runs_size(), " runs, ",
                              sweep->stages_size(),
                              " shared early stages; nothing was submitted"));
  } else {
    *session.env.out << sweep->name() << std::endl;
    session.Note(absl::StrCat("follow it: comera sweep watch ",
                              LastSegment(sweep->name())));
  }
  return kExitOk;
}

int WatchSweepVerb(const Session& session, const std::string& name) {
  const auto client = ConnectSweeps(session);
  if (!client.ok()) return session.FailRpc(client.status());
  Interrupts interrupts([&] { (*client)->Stop(); });
  SweepPrinter printer(session);
  const absl::StatusOr<v1::Sweep> sweep = (*client)->Watch(
      name, [&](const v1::Sweep& s) { printer.OnSweep(s); },
      [&](const v1::SweepEvent& e) { printer.OnEvent(e); });
  if (interrupts.happened()) {
    session.Note(absl::StrCat("detached; ", name,
                              " goes on. Attach again: comera sweep watch ",
                              LastSegment(name)));
    return kExitInterrupted;
  }
  if (!sweep.ok()) return session.FailRpc(sweep.status());
  printer.Finish(*sweep);
  return ExitCodeOfSweep(*sweep);
}

}  // namespace comera::client
