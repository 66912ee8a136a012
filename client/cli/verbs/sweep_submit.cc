// Submits sweeps and follows them to their end.
#include "client/cli/verbs/sweep_submit.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/live/sweep_view.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/sweep_connection.h"
#include "client/job_file.h"
#include "client/sweep_file.h"
#include "proto/sweep/search_job.h"
#include "proto/sweep/sweep_plan.h"

namespace comera::client {

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

bool CheckJobOrSearch(const JobOrSearch& spec, const std::string& file,
                      const Session& session) {
  return spec.is_search ? CheckSweep(spec.search, file, session)
                        : CheckSpec(spec.job, file, session);
}

JobOrSearch MakeJobOrSearch(v1::JobSpec job) {
  JobOrSearch spec;
  spec.is_search = IsSearch(job);
  if (spec.is_search) *spec.search.mutable_job() = job;
  spec.job = std::move(job);
  return spec;
}

std::optional<JobOrSearch> ReadJobOrSearch(const SpecInput& input,
                                           const Session& session) {
  JobFileText text = ReadSpec(input, session);
  if (text.status.ok() && !IsSearch(text.spec)) {
    if (!CheckText(text, input.file, session)) return std::nullopt;
    return MakeJobOrSearch(std::move(text.spec));
  }
  if (text.status.ok()) {
    JobOrSearch spec = MakeJobOrSearch(std::move(text.spec));
    if (!CheckJobOrSearch(spec, input.file, session)) return std::nullopt;
    return spec;
  }
  // A job file has no `sweep` section, a search may have one.
  absl::StatusOr<v1::SweepSpec> search = ReadSweepFile(input.file);
  if (!search.ok() || !IsSearch(search->job())) {
    if (absl::StrContains(text.status.message(), ": sweep: unknown field")) {
      session.Fail(
          Printable(absl::StrCat(
              input.file, " describes a sweep: comera sweep ", input.file)),
          kExitClientError);
    } else {
      CheckText(text, input.file, session);
    }
    return std::nullopt;
  }
  for (const std::string& assignment : input.assignments) {
    const absl::Status status = SetJobField(
        assignment, session.env.working_folder, search->mutable_job());
    if (status.ok()) continue;
    FailLines(status, session);
    return std::nullopt;
  }
  JobOrSearch spec;
  spec.is_search = true;
  spec.job = search->job();
  spec.search = *std::move(search);
  if (!CheckJobOrSearch(spec, input.file, session)) return std::nullopt;
  return spec;
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
