// Connects sweep and pareto to the coordinator, and formats what both show.
#ifndef COMERA_CLIENT_CLI_SESSION_SWEEP_CONNECTION_H_
#define COMERA_CLIENT_CLI_SESSION_SWEEP_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/output/pareto_plot.h"
#include "client/cli/session/session.h"
#include "client/sweep_client.h"

namespace comera::client {

// Makes a client of the coordinator that flags and environment name.
absl::StatusOr<std::unique_ptr<SweepClient>> ConnectSweeps(
    const Session& session);

// Returns `sweeps/{sweep}` for such a name or a bare id. InvalidArgument.
absl::StatusOr<std::string> SweepNameFrom(const std::string& argument);

// All points of a sweep, with those on its front marked.
std::vector<PlotPoint> PlotPoints(const v1::Sweep& sweep);

// The front as a table: size, bytes, loss, and the run of each point.
std::string FrontTable(const v1::SweepFront& front, const v1::Sweep* sweep,
                       const TableLayout& layout);
// E.g. "hyper-volume 0.431 of (loss 5.99, 1.2M parameters)"; "" without a
// reference.
std::string HypervolumeLine(const v1::SweepFront& front);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_SWEEP_CONNECTION_H_
