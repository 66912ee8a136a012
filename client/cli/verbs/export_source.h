// Finds what an export reads from the coordinator.
#ifndef COMERA_CLIENT_CLI_VERBS_EXPORT_SOURCE_H_
#define COMERA_CLIENT_CLI_VERBS_EXPORT_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/session/session.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::client {

// A job, or a sweep and the jobs that it has so far.
struct ExportSource {
  std::optional<v1::Sweep> sweep;
  std::vector<v1::Job> jobs;
};

// Finds `what`: `jobs/{job}`, `sweeps/{sweep}`, or a bare id, which is a job's
// if there is such a job. InvalidArgument: `what` is not a name, or it is a
// sweep and `follow` asks for a job. NotFound.
absl::StatusOr<ExportSource> FindExportSource(const std::string& what,
                                              bool follow,
                                              const Session& session);

// Prints why FindExportSource failed and returns the exit code.
int FailExportSource(const absl::Status& status, const Session& session);

// Whether an export goes to a server: `to` begins with http:// or https://.
bool IsServerAddress(const std::string& to);

// The sequence number of a job's newest event.
absl::StatusOr<int64_t> NewestEvent(TrainingClient& client,
                                    const std::string& job);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_EXPORT_SOURCE_H_
