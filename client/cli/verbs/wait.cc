// comera wait: returns when a job has ended.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/live/watch_job.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

int Wait(const std::string& job, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  auto client = session.Connect();
  Interrupts interrupts([&] { client->Stop(); });
  TrainingClient::WatchOptions options;
  // Without --timeout there is no limit.
  if (!session.timeout_text.empty()) {
    options.deadline = absl::Now() + session.timeout;
  }
  RunFigures figures;
  bool connected = false;
  const absl::StatusOr<v1::Job> end = client->Watch(
      *name, options,
      [&](const v1::Job& j) {
        connected = true;
        figures.Apply(j);
      },
      [&](const v1::JobEvent& e) { figures.Apply(e); });
  if (interrupts.happened()) return kExitInterrupted;
  if (connected && absl::IsDeadlineExceeded(end.status())) {
    session.Note(absl::StrCat(*name, " is ", v1::JobState_Name(figures.state()),
                              " after ", session.timeout_text));
    return kExitUnfinished;
  }
  if (!end.ok()) return session.FailRpc(end.status());
  if (session.output == OutputFormat::kTable) {
    figures.Apply(*end);
    PrintSummary(session, figures, "", *client);
  } else {
    session.Print(*end, /*one_line=*/false);
  }
  return ExitCodeOfJob(*end);
}

}  // namespace

Verb WaitVerb(Session* session) {
  auto job = std::make_shared<std::string>();
  Verb verb = {"wait", "Wait for a job's end (at most --timeout)", {}, nullptr};
  verb.arguments.push_back({"job", "Job id", job.get(), true, {}});
  verb.examples =
      R"(  comera wait 4f2x7k3m5q6a && comera models 4f2x7k3m5q6a --download ./model
  comera wait 4f2x7k3m5q6a --timeout 1h)";
  verb.run = [=] { return Wait(*job, *session); };
  return verb;
}

}  // namespace comera::client
