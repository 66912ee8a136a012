// comera workers: shows all machines, or one of them.
#include <memory>

#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/worker_rows.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

int Workers(const std::string& worker, const Session& session) {
  const auto client = session.Connect();
  if (!worker.empty()) {
    const absl::StatusOr<std::string> name = WorkerNameFrom(worker);
    if (!name.ok()) {
      return session.Fail(std::string(name.status().message()), kExitUsage);
    }
    const auto summary = client->GetWorker(*name);
    if (!summary.ok()) return session.FailRpc(summary.status());
    PrintWorker(*summary, session);
    return kExitOk;
  }
  const auto workers = client->ListWorkers();
  if (!workers.ok()) return session.FailRpc(workers.status());
  if (session.output != OutputFormat::kTable) {
    v1::ListWorkersResponse response;
    for (const v1::WorkerSummary& one : *workers) *response.add_workers() = one;
    session.Print(response, /*one_line=*/false);
    return kExitOk;
  }
  return session.PrintTable(WorkerRows(*workers), WorkerDispensable());
}

}  // namespace

Verb WorkersVerb(Session* session) {
  auto worker = std::make_shared<std::string>();
  Verb verb = {"workers", "List workers, or show one", {}, nullptr};
  verb.arguments = {{"worker", "Only this one", worker.get(), false, {}}};
  verb.examples =
      R"(  comera workers
  comera workers node-17 -o json)";
  verb.run = [=] { return Workers(*worker, *session); };
  return verb;
}

}  // namespace comera::client
