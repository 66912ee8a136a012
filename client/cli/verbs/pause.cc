// comera pause, comera resume: takes jobs off their slots and back.
#include <memory>

#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string job;
  std::string reason = "with the command line";
};

int Show(const absl::StatusOr<v1::Job>& job, const Session& session) {
  if (!job.ok()) return session.FailRpc(job.status());
  if (session.output == OutputFormat::kTable) {
    *session.env.out << job->name() << " " << StateText(*job)
                     << (job->pausing() ? " (pausing)" : "") << std::endl;
  } else {
    session.Print(*job, /*one_line=*/false);
  }
  return kExitOk;
}

int Run(const Arguments& arguments, bool pause, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(arguments.job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  const auto client = session.Connect();
  return Show(
      pause ? client->Pause(*name, arguments.reason) : client->Resume(*name),
      session);
}

}  // namespace

Verb PauseVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "pause", "Have a job save a checkpoint and leave its slots", {}, nullptr};
  verb.arguments = {
      {"job", "Job id", &arguments->job, true, {}},
      {"--reason", "Kept with the job", &arguments->reason, false, {}},
  };
  verb.examples = R"(  comera pause 4f2x7k3m5q6a --reason "needs new data")";
  verb.run = [=] { return Run(*arguments, /*pause=*/true, *session); };
  return verb;
}

Verb ResumeVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "resume", "Queue a paused job again, at its old place", {}, nullptr};
  verb.arguments = {{"job", "Job id", &arguments->job, true, {}}};
  verb.examples = R"(  comera resume 4f2x7k3m5q6a)";
  verb.run = [=] { return Run(*arguments, /*pause=*/false, *session); };
  return verb;
}

}  // namespace comera::client
