// comera cancel: asks a job to stop.
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string job;
  std::string reason = "cancelled with the command line";
};

int Cancel(const Arguments& arguments, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(arguments.job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  const absl::StatusOr<v1::Job> job =
      session.Connect()->Cancel(*name, arguments.reason);
  if (!job.ok()) return session.FailRpc(job.status());
  if (session.output == OutputFormat::kTable) {
    *session.env.out << job->name() << " " << StateText(*job) << std::endl;
  } else {
    session.Print(*job, /*one_line=*/false);
  }
  return kExitOk;
}

}  // namespace

Verb CancelVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"cancel", "Cancel a job", {}, nullptr};
  verb.arguments = {
      {"job", "Job id", &arguments->job, true, {}},
      {"--reason", "Kept with the job", &arguments->reason, false, {}},
  };
  verb.examples =
      R"(  comera cancel 4f2x7k3m5q6a
  comera cancel 4f2x7k3m5q6a --reason "wrong data")";
  verb.run = [=] { return Cancel(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
