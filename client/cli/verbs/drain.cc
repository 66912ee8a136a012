// comera drain, comera resume-worker: takes workers out of service and back.
#include <memory>

#include "client/cli/session/exit_codes.h"
#include "client/cli/session/worker_rows.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string worker;
  std::string reason = "drained with the command line";
  bool wait = false;
  bool undo = false;
};

int Drain(const Arguments& arguments, const Session& session) {
  const absl::StatusOr<std::string> name = WorkerNameFrom(arguments.worker);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  const auto client = session.Connect();
  const auto worker =
      arguments.undo
          ? client->ResumeWorker(*name)
          : client->DrainWorker(*name, arguments.reason, arguments.wait);
  if (!worker.ok()) return session.FailRpc(worker.status());
  if (session.output == OutputFormat::kTable) {
    *session.env.out << worker->name() << " " << ServiceText(*worker)
                     << std::endl;
  } else {
    session.Print(*worker, /*one_line=*/false);
  }
  return kExitOk;
}

}  // namespace

Verb DrainVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"drain",
               "Start no more members on a worker and move those that it has",
               {},
               nullptr};
  verb.arguments = {
      {"worker", "Worker's name", &arguments->worker, true, {}},
      {"--wait", "Let the members there finish", &arguments->wait, false, {}},
      {"--undo", "Take it back into service", &arguments->undo, false, {}},
      {"--reason", "Shown with the worker", &arguments->reason, false, {}},
  };
  verb.examples =
      R"(  comera drain node-17 --reason "new disks"
  comera drain node-17 --wait          # its members finish
  comera drain node-17 --undo)";
  verb.run = [=] { return Drain(*arguments, *session); };
  return verb;
}

Verb ResumeWorkerVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  arguments->undo = true;
  Verb verb = {"resume-worker",
               "Take a drained or excluded worker back into service",
               {},
               nullptr};
  verb.arguments = {{"worker", "Worker's name", &arguments->worker, true, {}}};
  verb.examples = R"(  comera resume-worker node-17)";
  verb.run = [=] { return Drain(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
