// Formats workers' slots, GPUs and service state.

#include "client/cli/session/worker_rows.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/output/text_format.h"
#include "proto/resource_names.h"

namespace comera::client {
namespace {

std::string GpuText(const v1::WorkerSummary& worker) {
  std::map<std::string, int> models;
  for (const std::string& gpu : worker.gpus()) ++models[Printable(gpu)];
  std::vector<std::string> texts;
  for (const auto& [model, count] : models) {
    texts.push_back(absl::StrCat(count, " x ", model));
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : Printable(text);
}

}  // namespace

std::string ServiceText(const v1::WorkerSummary& worker) {
  switch (worker.service()) {
    case v1::WorkerSummary::DRAINING:
      return "draining";
    case v1::WorkerSummary::DRAINED:
      return "drained";
    case v1::WorkerSummary::EXCLUDED:
      return "excluded";
    default:
      return worker.connected() ? "in service" : "away";
  }
}

std::vector<std::vector<std::string>> WorkerRows(
    const std::vector<v1::WorkerSummary>& workers) {
  std::vector<std::vector<std::string>> rows = {
      {"WORKER", "HOST", "RACK", "SERVICE", "BUSY/SLOTS", "UNFIT", "JOBS",
       "GPUS", "REASON"}};
  for (const v1::WorkerSummary& worker : workers) {
    std::string reason = Printable(worker.service_reason());
    if (reason.empty() && worker.unfit_slots_size() > 0) {
      reason = Printable(worker.unfit_slots(0));
    }
    rows.push_back({LastSegment(worker.name()), OrDash(worker.host()),
                    OrDash(worker.rack()), ServiceText(worker),
                    absl::StrCat(worker.busy_slots(), "/", worker.slots()),
                    absl::StrCat(worker.unfit_count()),
                    absl::StrCat(worker.jobs_size()), GpuText(worker), reason});
  }
  return rows;
}

std::vector<std::string> WorkerDispensable() {
  return {"RACK", "UNFIT", "JOBS", "HOST", "GPUS", "REASON"};
}

absl::StatusOr<std::string> WorkerNameFrom(const std::string& argument) {
  const std::string name =
      argument.rfind("workers/", 0) == 0 ? argument : WorkerName(argument);
  if (!ParseWorkerName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", Printable(argument),
                     "` is no worker's name ([a-z0-9-], at most 63)"));
  }
  return name;
}

void PrintWorker(const v1::WorkerSummary& worker, const Session& session) {
  if (session.output != OutputFormat::kTable) {
    session.Print(worker, /*one_line=*/false);
    return;
  }
  std::ostream& out = *session.env.out;
  out << worker.name() << " " << ServiceText(worker) << "\n";
  if (!worker.service_reason().empty()) {
    out << "reason: " << Printable(worker.service_reason()) << "\n";
  }
  if (worker.has_service_since()) {
    out << "since: "
        << DurationText(absl::Now() - ToTime(worker.service_since()))
        << " ago\n";
  }
  out << "host: " << OrDash(worker.host()) << "\n"
      << "rack: " << OrDash(worker.rack()) << "\n"
      << "version: " << OrDash(worker.version()) << "\n"
      << "slots: " << worker.busy_slots() << " of " << worker.slots()
      << " busy, " << worker.unfit_count() << " unfit\n"
      << "gpus: " << GpuText(worker) << "\n"
      << "hardware failures: " << worker.hardware_failures() << "\n";
  for (const std::string& job : worker.jobs()) out << "job: " << job << "\n";
  for (const std::string& slot : worker.unfit_slots()) {
    out << "unfit: " << Printable(slot) << "\n";
  }
  out << std::flush;
}

}  // namespace comera::client
