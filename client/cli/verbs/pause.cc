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
  bool start_over = false;
};

int Show(const absl::StatusOr<v1::Job>& job, bool start_over,
         const Session& session) {
  if (!job.ok()) return session.FailRpc(job.status());
  if (session.output == OutputFormat::kTable) {
    *session.env.out << job->name() << " " << StateText(*job)
                     << (job->pausing() ? " (pausing)" : "")
                     << (start_over ? ", to begin at step 0" : "") << std::endl;
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
  return Show(pause ? client->Pause(*name, arguments.reason)
                    : client->Resume(*name, arguments.start_over),
              arguments.start_over, session);
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
  Verb verb = {"resume",
               "Let a job that is paused, failed or was cancelled go on",
               {},
               nullptr};
  verb.arguments = {
      {"job", "Job id", &arguments->job, true, {}},
      {"--start-over",
       "Begin at step 0: gives up all checkpoints of the job, which is kept as "
       "an incident",
       &arguments->start_over,
       false,
       {}},
  };
  verb.examples = R"(  comera resume 4f2x7k3m5q6a

A paused job takes its old place in the queue. One that failed or was cancelled
goes on from its newest checkpoint, with a new retry budget and time limit, as
long as the checkpoint is kept (comera checkpoints lists it).

A job whose newest checkpoint no worker can give waits for it, and is paused
after a while (comera explain says so). Once the worker is back it goes on from
there. To give the checkpoint up and begin at step 0 again:
  comera resume 4f2x7k3m5q6a --start-over)";
  verb.run = [=] { return Run(*arguments, /*pause=*/false, *session); };
  return verb;
}

}  // namespace comera::client
