// comera sweep: submits sweeps, lists, shows, follows, cancels, deletes them.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/live/sweep_view.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/spec_input.h"
#include "client/cli/session/sweep_connection.h"
#include "client/cli/verbs/sweep_submit.h"
#include "client/cli/verbs/verbs.h"
#include "client/job_file.h"
#include "client/sweep_file.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string what;
  std::string name;
  std::vector<std::string> assignments;
  std::string request_id;
  std::string reason;
  int64_t limit = 50;
  bool watch = false;
  bool dry_run = false;
};

int Submit(const Arguments& arguments, const Session& session) {
  std::vector<std::string> notes;
  absl::StatusOr<v1::SweepSpec> spec = ReadSweepFile(arguments.what, &notes);
  absl::Status status = spec.status();
  for (const std::string& assignment : arguments.assignments) {
    if (!status.ok()) break;
    status = SetJobField(assignment, session.env.working_folder,
                         spec->mutable_job(), &notes);
  }
  for (const std::string& note : notes) session.Note(Printable(note));
  if (!status.ok()) {
    FailLines(status, session);
    return kExitClientError;
  }
  if (!CheckSweep(*spec, arguments.what, session)) return kExitClientError;
  return SubmitSweep(*spec,
                     {arguments.request_id, arguments.watch, arguments.dry_run},
                     session);
}

int List(const Arguments& arguments, const Session& session) {
  if (arguments.limit < 0) {
    return session.Fail("--limit must not be negative", kExitUsage);
  }
  const auto client = ConnectSweeps(session);
  if (!client.ok()) return session.FailRpc(client.status());
  const auto sweeps = (*client)->List(arguments.limit);
  if (!sweeps.ok()) return session.FailRpc(sweeps.status());
  if (session.output != OutputFormat::kTable) {
    v1::ListSweepsResponse response;
    for (const v1::Sweep& sweep : *sweeps) *response.add_sweeps() = sweep;
    session.Print(response, /*one_line=*/false);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "NAME", "STATE", "RUNS", "HYPERVOLUME", "AGE", "REASON"}};
  for (const v1::Sweep& sweep : *sweeps) {
    const v1::SweepCounts& counts = sweep.counts();
    rows.push_back(
        {LastSegment(sweep.name()),
         sweep.spec().display_name().empty()
             ? "-"
             : Printable(sweep.spec().display_name()),
         SweepStateText(sweep),
         absl::StrCat(counts.runs() - counts.waiting() - counts.active(), "/",
                      counts.runs()),
         sweep.front().has_reference()
             ? FormatFigure(sweep.front().hypervolume_ratio())
             : "-",
         DurationText(absl::Now() - ToTime(sweep.create_time())),
         Printable(sweep.reason())});
  }
  return session.PrintTable(rows, {"REASON", "AGE", "HYPERVOLUME"});
}

int Get(const Session& session, const std::string& name) {
  const auto client = ConnectSweeps(session);
  if (!client.ok()) return session.FailRpc(client.status());
  const absl::StatusOr<v1::Sweep> sweep = (*client)->Get(name);
  if (!sweep.ok()) return session.FailRpc(sweep.status());
  if (session.output != OutputFormat::kTable) {
    session.Print(*sweep, /*one_line=*/false);
    return kExitOk;
  }
  *session.env.out << SweepText(*sweep, session.Layout()) << std::flush;
  return kExitOk;
}

int CancelOrDelete(const Arguments& arguments, const Session& session,
                   const std::string& name) {
  const auto client = ConnectSweeps(session);
  if (!client.ok()) return session.FailRpc(client.status());
  if (arguments.what == "delete") {
    const absl::Status status = (*client)->Delete(name);
    if (!status.ok()) return session.FailRpc(status);
    session.Note(absl::StrCat("deleted ", name, "; its jobs are still there"));
    return kExitOk;
  }
  const absl::StatusOr<v1::Sweep> sweep =
      (*client)->Cancel(name, arguments.reason);
  if (!sweep.ok()) return session.FailRpc(sweep.status());
  if (session.output != OutputFormat::kTable) {
    session.Print(*sweep, /*one_line=*/false);
  } else {
    *session.env.out << SweepStateText(*sweep) << std::endl;
  }
  return kExitOk;
}

int Sweep(const Arguments& arguments, const Session& session) {
  const std::string& what = arguments.what;
  const bool named =
      what == "get" || what == "watch" || what == "cancel" || what == "delete";
  if (!named) {
    if (!arguments.name.empty()) {
      return session.Fail(
          absl::StrCat("unexpected argument `", Printable(arguments.name), "`"),
          kExitUsage);
    }
    return what == "ls" ? List(arguments, session) : Submit(arguments, session);
  }
  if (arguments.name.empty()) {
    return session.Fail(absl::StrCat("comera sweep ", what, " needs a sweep"),
                        kExitUsage);
  }
  const absl::StatusOr<std::string> name = SweepNameFrom(arguments.name);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  if (what == "get") return Get(session, *name);
  if (what == "watch") return WatchSweepVerb(session, *name);
  return CancelOrDelete(arguments, session, *name);
}

}  // namespace

Verb SweepVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"sweep",
               "Train many runs of one job towards a Pareto front",
               {},
               nullptr};
  verb.arguments = {
      {"what",
       "Sweep file (a job file with a `sweep` section or `method: auto`), or: "
       "ls, get, watch, cancel, delete",
       &arguments->what,
       true,
       {},
       Names::kFile,
       {"ls", "get", "watch", "cancel", "delete"}},
      {"sweep", "Sweep id", &arguments->name, false, {}},
      {"--set",
       "Sets a field of the base job: FIELD=VALUE; repeatable",
       &arguments->assignments,
       false,
       {}},
      {"--watch", "Follow the sweep", &arguments->watch, false, {}},
      {"--dry-run",
       "List the runs, submit nothing",
       &arguments->dry_run,
       false,
       {}},
      {"--request-id",
       "Idempotency key: the same id and sweep are accepted once",
       &arguments->request_id,
       false,
       {}},
      {"--reason", "Why (cancel)", &arguments->reason, false, {}},
      {"--limit",
       "At most so many (ls; 50; 0: all)",
       &arguments->limit,
       false,
       {}},
  };
  verb.examples =
      R"(  comera sweep sweep.yaml --dry-run
  comera sweep sweep.yaml --watch
  comera sweep ls
  comera sweep get 4f2x7k3m5q6a
  comera sweep cancel 4f2x7k3m5q6a --reason "wrong grid")";
  verb.run = [=] { return Sweep(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
