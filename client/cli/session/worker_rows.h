// Formats workers as rows of a table, and in detail.
#ifndef COMERA_CLIENT_CLI_SESSION_WORKER_ROWS_H_
#define COMERA_CLIENT_CLI_SESSION_WORKER_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session/session.h"
#include "comera/v1/training_service.pb.h"

namespace comera::client {

// The header, then a row for each worker.
std::vector<std::vector<std::string>> WorkerRows(
    const std::vector<v1::WorkerSummary>& workers);

// The columns that a narrow terminal leaves out first.
std::vector<std::string> WorkerDispensable();

// E.g. "in service", "away", "draining".
std::string ServiceText(const v1::WorkerSummary& worker);

// Returns `workers/{worker}` for such a name or a bare id. InvalidArgument.
absl::StatusOr<std::string> WorkerNameFrom(const std::string& argument);

// Prints everything about a worker, in the session's output format.
void PrintWorker(const v1::WorkerSummary& worker, const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_WORKER_ROWS_H_
