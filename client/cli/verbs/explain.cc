// comera explain: says why a job waits, who is ahead, and when it may start.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/output/style.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

std::string When(bool known, const google::protobuf::Timestamp& time) {
  if (!known) return "unknown";
  const absl::Duration left = ToTime(time) - absl::Now();
  return left < absl::Seconds(1) ? "now"
                                 : absl::StrCat("in ", DurationText(left));
}

void PrintWaiting(const v1::JobExplanation& e, const Session& session) {
  std::ostream& out = *session.env.out;
  out << "position: " << e.position() << "\n"
      << "blocked by: "
      << (e.blocked_by().empty() ? "nothing" : Printable(e.blocked_by()))
      << "\n"
      << "expected start: " << When(e.has_expected_start(), e.expected_start())
      << "\n"
      << "slots: " << e.free_slots() << " of " << e.fit_slots() << " free\n";
  if (e.ahead_size() > 0) {
    std::vector<std::vector<std::string>> rows = {
        {"AHEAD", "QUEUE", "PRIO", "PROCESSES", "WHY"}};
    for (const v1::JobAhead& ahead : e.ahead()) {
      rows.push_back({ahead.name().empty() ? "-" : LastSegment(ahead.name()),
                      Printable(ahead.queue()), absl::StrCat(ahead.priority()),
                      absl::StrCat(ahead.processes()), Printable(ahead.why())});
    }
    out << "\n" << session.TableText(rows);
    const int more = e.position() - 1 - e.ahead_size();
    if (more > 0) out << "and " << more << " more\n";
  }
  if (e.smaller_gangs_size() > 0) {
    std::vector<std::vector<std::string>> rows = {{"WITH PROCESSES", "START"}};
    for (const v1::SmallerGang& smaller : e.smaller_gangs()) {
      rows.push_back({absl::StrCat(smaller.processes()),
                      smaller.now() ? "now"
                                    : When(smaller.has_expected_start(),
                                           smaller.expected_start())});
    }
    out << "\n" << session.TableText(rows);
  }
}

void PrintExplanation(const v1::JobExplanation& e, const Session& session) {
  std::ostream& out = *session.env.out;
  const std::string& state = v1::JobState_Name(e.state());
  out << e.name() << " " << Paint(ToneOfState(state), state, session.Color())
      << ": " << Printable(e.reason()) << "\n";
  out << "processes: " << e.processes() << " now, asks for "
      << (e.min_processes() < e.max_processes()
              ? absl::StrCat(e.min_processes(), " to ")
              : "")
      << e.max_processes() << "\n";
  out << "queue: " << Printable(e.queue()) << ", priority " << e.priority()
      << ", " << e.queue_processes() << " processes in use, "
      << e.queue_guaranteed_processes() << " guaranteed, "
      << (e.queue_max_processes() > 0
              ? absl::StrCat("at most ", e.queue_max_processes())
              : std::string("no limit"))
      << "\n";
  if (e.preemptions() > 0) {
    out << "made room for others: " << e.preemptions() << " times\n";
  }
  if (e.workers_size() > 0) {
    out << "workers: " << absl::StrJoin(e.workers(), ", ") << "\n";
  }
  if (e.state() == v1::QUEUED) PrintWaiting(e, session);
  out << std::flush;
}

int Explain(const std::string& job, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  const auto explanation = session.Connect()->Explain(*name);
  if (!explanation.ok()) return session.FailRpc(explanation.status());
  if (session.output == OutputFormat::kTable) {
    PrintExplanation(*explanation, session);
  } else {
    session.Print(*explanation, /*one_line=*/false);
  }
  return kExitOk;
}

}  // namespace

Verb ExplainVerb(Session* session) {
  auto job = std::make_shared<std::string>();
  Verb verb = {"explain",
               "Tell why a job waits, who is ahead, when it may start and what "
               "fewer processes would get",
               {},
               nullptr};
  verb.arguments = {{"job", "Job id", job.get(), true, {}}};
  verb.examples = R"(  comera explain 4f2x7k3m5q6a)";
  verb.run = [=] { return Explain(*job, *session); };
  return verb;
}

}  // namespace comera::client
