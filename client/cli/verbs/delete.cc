// comera delete: removes finished jobs with all that is kept of them.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

int Delete(const std::vector<std::string>& jobs, const Session& session) {
  const auto client = session.Connect();
  int code = kExitOk;
  for (const std::string& job : jobs) {
    const absl::StatusOr<std::string> name = Session::JobNameFrom(job);
    if (!name.ok()) {
      return session.Fail(std::string(name.status().message()), kExitUsage);
    }
    const absl::Status status = client->Delete(*name);
    if (!status.ok()) {
      // The others go all the same.
      const int failed = session.FailRpc(status);
      if (code == kExitOk) code = failed;
      continue;
    }
    session.Note(absl::StrCat("deleted ", *name));
  }
  return code;
}

}  // namespace

Verb DeleteVerb(Session* session) {
  auto jobs = std::make_shared<std::vector<std::string>>();
  Verb verb = {
      "delete",
      "Remove finished jobs with their events, logs, models and checkpoints",
      {},
      nullptr};
  verb.arguments = {{"job", "Job ids", jobs.get(), true, {}}};
  verb.examples = R"(  comera delete 4f2x7k3m5q6a
  comera delete 4f2x7k3m5q6a 7c1m9d2k8w3e

A job with a model that is pinned or has an alias stays (comera models).)";
  verb.run = [=] { return Delete(*jobs, *session); };
  return verb;
}

}  // namespace comera::client
