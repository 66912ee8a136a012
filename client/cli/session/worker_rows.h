// How the CLI shows workers.
#ifndef COMERA_CLIENT_CLI_SESSION_WORKER_ROWS_H_
#define COMERA_CLIENT_CLI_SESSION_WORKER_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session/session.h"
#include "comera/v1/training_service.pb.h"

namespace comera::client {

// The header, then a row for each.
std::vector<std::vector<std::string>> WorkerRows(
    const std::vector<v1::WorkerSummary>& workers);

// Those of its columns that a narrow terminal does without.
std::vector<std::string> WorkerDispensable();

// "in service", "away", "draining", ...
std::string ServiceText(const v1::WorkerSummary& worker);

// `workers/{worker}` from that or the bare id. InvalidArgument.
absl::StatusOr<std::string> WorkerNameFrom(const std::string& argument);

// All of one, in lines or as the session says.
void PrintWorker(const v1::WorkerSummary& worker, const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_WORKER_ROWS_H_
