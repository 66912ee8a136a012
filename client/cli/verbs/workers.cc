// comera workers: shows all machines, or one of them, or forgets one.
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

int Forget(const std::string& worker, const Session& session) {
  const absl::StatusOr<std::string> name = WorkerNameFrom(worker);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  const absl::Status status = session.Connect()->DeleteWorker(*name);
  if (!status.ok()) return session.FailRpc(status);
  *session.env.out << *name << std::endl;
  return kExitOk;
}

}  // namespace

Verb WorkersVerb(Session* session) {
  auto worker = std::make_shared<std::string>();
  auto forget = std::make_shared<std::string>();
  Verb verb = {"workers", "List workers, show one, or forget one", {}, nullptr};
  verb.arguments = {
      {"worker", "Only this one", worker.get(), false, {}},
      {"--forget",
       "Forget this one, which is gone, and a drain of it",
       forget.get(),
       false,
       {}}};
  verb.examples =
      R"(  comera workers
  comera workers node-17 -o json
  comera workers --forget node-17)";
  verb.run = [=] {
    if (forget->empty()) return Workers(*worker, *session);
    if (worker->empty()) return Forget(*forget, *session);
    return session->Fail("--forget NAME takes no other worker", kExitUsage);
  };
  return verb;
}

}  // namespace comera::client
