// comera ls: lists jobs.
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/output/job_row.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/label_filter.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

constexpr char kExamples[] = R"(  comera ls --state running --state queued
  comera ls --queue fast --user alice --label team=nlp
  comera ls --search mnli --limit 0 -o json
  comera ls --state succeeded --sort loss
  comera ls -o wide
  comera ls --columns id,state,eta --no-headers)";

struct Arguments {
  std::vector<std::string> states;
  std::string queue;
  std::string user;
  std::vector<std::string> labels;
  std::string search;
  std::string sort;
  int64_t limit = 50;
};

std::vector<std::string> Row(const v1::Job& job, absl::Time now) {
  const v1::JobSpec& spec = job.spec();
  const v1::JobProgress& progress = job.progress();
  const bool placed = job.state() == v1::STARTING ||
                      job.state() == v1::RUNNING ||
                      job.state() == v1::CANCELLING;
  const int processes = std::max(spec.resources().processes(), 1);
  std::string steps = "-";
  if (progress.total_steps() > 0) {
    steps = absl::StrFormat("%d/%.0f%%", progress.step(),
                            100.0 * progress.step() / progress.total_steps());
  }
  return {LastSegment(job.name()),
          spec.display_name().empty() ? "-" : Printable(spec.display_name()),
          StateText(job),
          absl::StrCat(spec.priority()),
          absl::StrCat(placed ? processes : 0, "/", processes),
          steps,
          LossAndTarget(job),
          SizeAndTarget(job),
          job.state() == v1::RUNNING && progress.has_eta()
              ? DurationText(ToDuration(progress.eta()))
              : "-",
          DurationText(now - ToTime(job.create_time())),
          Printable(job.reason())};
}

absl::StatusOr<std::vector<v1::JobState>> ParseStates(
    const std::vector<std::string>& names) {
  std::vector<v1::JobState> states;
  for (const std::string& name : names) {
    v1::JobState state;
    if (!v1::JobState_Parse(absl::AsciiStrToUpper(name), &state) ||
        state == v1::JOB_STATE_UNSPECIFIED) {
      std::vector<std::string> known;
      const auto& type = *v1::JobState_descriptor();
      for (int i = 1; i < type.value_count(); ++i) {
        known.push_back(absl::AsciiStrToLower(type.value(i)->name()));
      }
      return absl::InvalidArgumentError(
          absl::StrCat("--state ", Printable(name), " is none of ",
                       absl::StrJoin(known, ", ")));
    }
    states.push_back(state);
  }
  return states;
}

int Ls(const Arguments& arguments, const Session& session) {
  const auto states = ParseStates(arguments.states);
  if (!states.ok()) {
    return session.Fail(std::string(states.status().message()), kExitUsage);
  }
  if (arguments.limit < 0) {
    return session.Fail("--limit must not be negative", kExitUsage);
  }
  const auto labels = ParseLabels(arguments.labels);
  if (!labels.ok()) {
    return session.Fail(std::string(labels.status().message()), kExitUsage);
  }
  v1::ListJobsRequest filter;
  for (v1::JobState state : *states) filter.add_states(state);
  filter.set_queue(arguments.queue);
  filter.set_user(arguments.user);
  filter.set_order_by(arguments.sort);
  filter.mutable_labels()->insert(labels->begin(), labels->end());
  filter.set_text(arguments.search);
  const bool table = session.output == OutputFormat::kTable;
  if (table) filter.set_view(v1::JOB_VIEW_BASIC);
  const auto list = session.Connect()->ListMatching(filter, arguments.limit);
  if (!list.ok()) return session.FailRpc(list.status());
  if (!table) {
    session.Print(*list, /*one_line=*/false);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "NAME", "STATE", "PRIO", "PROCS", "STEP/%", "LOSS→TARGET",
       "SIZE→TARGET", "ETA", "AGE", "REASON"}};
  for (const v1::Job& job : list->jobs()) rows.push_back(Row(job, absl::Now()));
  const int code =
      session.PrintTable(rows, {"PRIO", "PROCS", "REASON", "AGE", "STEP/%",
                                "ETA", "NAME", "SIZE→TARGET"});
  if (code == kExitOk && list->jobs_size() < list->total_size()) {
    session.Note(absl::StrCat(list->jobs_size(), " of ", list->total_size(),
                              " jobs; --limit shows more"));
  }
  return code;
}

}  // namespace

Verb LsVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"ls", "List jobs", {}, nullptr};
  verb.arguments = {
      {"--state",
       "Only jobs in this state; repeatable",
       &arguments->states,
       false,
       {},
       Names::kNothing,
       {"queued", "starting", "running", "cancelling", "paused", "succeeded",
        "failed", "cancelled"}},
      {"--queue", "Only of this queue", &arguments->queue, false, {}},
      {"--user", "Only of this user", &arguments->user, false, {}},
      {"--label",
       "Only with this label, KEY=VALUE; repeatable",
       &arguments->labels,
       false,
       {}},
      {"--search",
       "Only with this text in id, name or labels",
       &arguments->search,
       false,
       {}},
      {"--sort",
       "By created, name, state, progress, loss or size; the other way round "
       "with \" desc\" behind it (\"created desc\")",
       &arguments->sort,
       false,
       {},
       Names::kNothing,
       {"created", "name", "state", "progress", "loss", "size"}},
      {"--limit", "At most so many (50; 0: all)", &arguments->limit, false, {}},
  };
  verb.examples = kExamples;
  verb.run = [=] { return Ls(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
