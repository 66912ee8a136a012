// Applies workers' progress reports: figures, checkpoints, incidents, events.
#include "server/coordinator/synchronize/progress_reports.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "server/coordinator/synchronize/progress_update.h"

namespace comera::server {
namespace {

// Members may report so many of a job's incidents; the coordinator keeps room
// for its own.
constexpr int kMaxReportedIncidents = 32;

void ApplyReport(const v1::ProgressReport& report, const std::string& worker,
                 JobEntry& entry, Operation* op) {
  const v1::TrainerEvent& given = report.event();
  if (given.has_checkpoint() && !given.checkpoint().snapshot()) {
    entry.RecordCheckpoint(given.checkpoint(), worker, op->now());
  } else if (given.has_incident()) {
    if (entry.job().incidents_size() < kMaxReportedIncidents) {
      entry.AddIncident(given.incident(), op);
    }
  } else if (given.has_run_info()) {
    entry.CheckBegun(given.run_info().resumed_from_step(), op);
  }
  UpdateProgress(given, entry.mutable_job().mutable_progress());
  auto event = ToJobEvent(given);
  if (event &&
      !entry.reported_events().Admit(report.attempt(), op->now(), &*event)) {
    entry.AddIncident(v1::INTERNAL,
                      "the attempt reports more than its history may hold: "
                      "events are left out",
                      op);
  } else if (event) {
    if (given.has_time()) *event->mutable_time() = given.time();
    entry.AddEvent(*std::move(event), op);
  }
  entry.MarkChanged(op);
}

}  // namespace

void ApplyProgressReports(const v1::SynchronizeRequest& request, JobTable* jobs,
                          v1::SynchronizeResponse* response, Operation* op) {
  // By job and attempt.
  std::map<std::pair<std::string, int64_t>, int64_t> acks;
  for (const v1::ProgressReport& report : request.reports()) {
    int64_t& ack = acks[{report.job(), report.attempt()}];
    JobEntry* entry = jobs->FindAttempt(report.job(), report.attempt());
    // Only member 0 reports.
    if (entry == nullptr || !entry->attempt().members()[0].RunsOn(
                                request.worker(), request.incarnation())) {
      ack = std::max(ack, report.number());
      continue;
    }
    if (entry->attempt().AcceptReport(report.number())) {
      ApplyReport(report, request.worker(), *entry, op);
    }
    ack = entry->attempt().record().last_report();
  }
  for (const auto& [key, number] : acks) {
    v1::ReportAck* ack = response->add_report_acks();
    ack->set_job(key.first);
    ack->set_attempt(key.second);
    ack->set_number(number);
  }
}

}  // namespace comera::server
