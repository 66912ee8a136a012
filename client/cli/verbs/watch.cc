// comera watch: follows a job to its end.
#include <memory>

#include "client/cli/live/watch_job.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {

namespace {

constexpr char kExamples[] = R"(  comera watch 4f2x7k3m5q6a
  comera watch 4f2x7k3m5q6a --plain
  comera watch 4f2x7k3m5q6a -o json | jq .metrics.loss)";

struct Arguments {
  std::string job;
  bool plain = false;
};

}  // namespace

Verb WatchVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"watch", "Follow a job; Ctrl-C detaches", {}, nullptr};
  verb.arguments = {
      {"job", "Job id", &arguments->job, true, {}},
      {"--plain",
       "Lines also on a terminal, no plots",
       &arguments->plain,
       false,
       {}},
  };
  verb.examples = kExamples;
  verb.run = [=] {
    const absl::StatusOr<std::string> name =
        Session::JobNameFrom(arguments->job);
    if (!name.ok()) {
      return session->Fail(std::string(name.status().message()), kExitUsage);
    }
    return WatchJobVerb(*session, *name, arguments->plain);
  };
  return verb;
}

}  // namespace comera::client
