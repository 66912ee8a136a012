// comera submit: sends a job and prints its name.
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/live/watch_job.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/spec_input.h"
#include "client/cli/verbs/sweep_submit.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

struct Arguments {
  SpecInput spec;
  std::string request_id;
  bool watch = false;
};

int Submit(const Arguments& arguments, const Session& session) {
  const std::optional<JobOrSearch> spec =
      ReadJobOrSearch(arguments.spec, session);
  if (!spec) return kExitClientError;
  if (spec->is_search) {
    return SubmitSweep(spec->search,
                       {arguments.request_id, arguments.watch, false}, session);
  }
  TrainingClient::SubmitOptions options;
  options.request_id = arguments.request_id;
  const absl::StatusOr<v1::Job> job =
      session.Connect()->Submit(spec->job, options);
  if (!job.ok()) return session.FailRpc(job.status());
  if (arguments.watch) {
    session.Note(absl::StrCat("submitted ", job->name()));
    return WatchJobVerb(session, job->name());
  }
  if (session.output == OutputFormat::kTable) {
    *session.env.out << job->name() << std::endl;
    session.Note(
        absl::StrCat("follow it: comera watch ", LastSegment(job->name())));
  } else {
    session.Print(*job, /*one_line=*/false);
  }
  return kExitOk;
}

}  // namespace

Verb SubmitVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"submit", "Submit a job to the coordinator",
               SpecArguments(&arguments->spec), nullptr};
  verb.arguments.push_back({"--request-id",
                            "Idempotency key: the same id and job are "
                            "accepted once",
                            &arguments->request_id,
                            false,
                            {}});
  verb.arguments.push_back(
      {"--watch", "Follow the job", &arguments->watch, false, {}});
  verb.examples =
      R"(  comera submit job.yaml
  comera submit job.yaml --watch
  comera submit job.yaml --set objective.late.target_loss=4.5 --request-id night-17)";
  verb.run = [=] { return Submit(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
