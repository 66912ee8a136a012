// Looks up the job or sweep to export, and its newest event.

#include "client/cli/verbs/export_source.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/sweep_connection.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

absl::StatusOr<ExportSource> FindSweep(const std::string& name,
                                       TrainingClient& client,
                                       const Session& session) {
  ASSIGN_OR_RETURN(const auto sweeps, ConnectSweeps(session));
  ExportSource source;
  ASSIGN_OR_RETURN(source.sweep, sweeps->Get(name));
  const auto add = [&](const std::string& job) -> absl::Status {
    if (job.empty()) return absl::OkStatus();
    absl::StatusOr<v1::Job> found = client.Get(job);
    // Retention deletes jobs before their sweep.
    if (absl::IsNotFound(found.status())) return absl::OkStatus();
    RETURN_IF_ERROR(found.status());
    source.jobs.push_back(*std::move(found));
    return absl::OkStatus();
  };
  for (const v1::SweepStage& stage : source.sweep->stages()) {
    RETURN_IF_ERROR(add(stage.job()));
  }
  for (const v1::SweepRun& run : source.sweep->runs()) {
    RETURN_IF_ERROR(add(run.job()));
  }
  return source;
}

absl::StatusOr<ExportSource> FindJobOrSweep(const std::string& what,
                                            const Session& session) {
  const auto client = session.Connect();
  if (absl::StartsWith(what, "sweeps/")) {
    ASSIGN_OR_RETURN(const std::string name, SweepNameFrom(what));
    return FindSweep(name, *client, session);
  }
  ASSIGN_OR_RETURN(const std::string name, Session::JobNameFrom(what));
  absl::StatusOr<v1::Job> job = client->Get(name);
  if (job.ok()) {
    ExportSource source;
    source.jobs.push_back(*std::move(job));
    return source;
  }
  if (!absl::IsNotFound(job.status()) || absl::StartsWith(what, "jobs/")) {
    return job.status();
  }
  ASSIGN_OR_RETURN(const std::string sweep, SweepNameFrom(what));
  absl::StatusOr<ExportSource> source = FindSweep(sweep, *client, session);
  if (!absl::IsNotFound(source.status())) return source;
  return absl::NotFoundError(absl::StrCat("neither a job nor a sweep: ", what));
}

}  // namespace

absl::StatusOr<ExportSource> FindExportSource(const std::string& what,
                                              bool follow,
                                              const Session& session) {
  ASSIGN_OR_RETURN(ExportSource source, FindJobOrSweep(what, session));
  if (source.sweep && follow) {
    return absl::InvalidArgumentError("--follow follows one job, not a sweep");
  }
  return source;
}

int FailExportSource(const absl::Status& status, const Session& session) {
  if (absl::IsInvalidArgument(status)) {
    return session.Fail(std::string(status.message()), kExitUsage);
  }
  return session.FailRpc(status);
}

bool IsServerAddress(const std::string& to) {
  return absl::StartsWith(to, "http://") || absl::StartsWith(to, "https://");
}

absl::StatusOr<int64_t> NewestEvent(TrainingClient& client,
                                    const std::string& job) {
  v1::ReadSeriesRequest request;
  request.set_name(job);
  request.add_metrics("loss");
  request.set_max_points(1);
  ASSIGN_OR_RETURN(const v1::JobSeries series, client.ReadSeries(request));
  return series.last_sequence();
}

}  // namespace comera::client
