// comera watch: follows a job to its end.
#include <memory>

#include "client/cli/exit_codes.h"
#include "client/cli/verbs.h"
#include "client/cli/watch_job.h"

namespace comera::client {

Verb WatchVerb(Session* session) {
  auto job = std::make_shared<std::string>();
  Verb verb = {"watch", "Follow a job; Ctrl-C detaches", {}, nullptr};
  verb.arguments.push_back({"job", "Job id", job.get(), true, {}});
  verb.examples =
      "  comera watch 4f2x7k3m5q6a\n"
      "  comera watch 4f2x7k3m5q6a -o json | jq .metrics.loss";
  verb.run = [=] {
    const absl::StatusOr<std::string> name = Session::JobNameFrom(*job);
    if (!name.ok()) {
      return session->Fail(std::string(name.status().message()), kExitUsage);
    }
    return WatchJobVerb(*session, *name);
  };
  return verb;
}

}  // namespace comera::client
