// Formats a job's progress as lines of text.
#ifndef COMERA_CLIENT_CLI_LIVE_PROGRESS_VIEW_H_
#define COMERA_CLIENT_CLI_LIVE_PROGRESS_VIEW_H_

#include <string>
#include <vector>

#include "client/cli/live/dense_peers.h"
#include "client/cli/live/run_figures.h"

namespace comera::client {

// The block that a terminal shows and updates in place; no line is wider than
// `width` columns.
std::vector<std::string> ProgressBlock(const RunFigures& figures, int width);

// The line that reports the newest metrics where the output is not a terminal.
std::string ProgressLine(const RunFigures& figures);

// The line for an event that is reported on any output: state changes,
// incidents, Pareto points (not on a terminal), lost events. "" for other
// events.
std::string EventLine(const v1::JobEvent& event);

// Sums up a finished job, line by line, beside dense jobs on its data.
// `model_directory` is the folder of its model, "" if it stays with the
// coordinator.
std::vector<std::string> Summary(const RunFigures& figures,
                                 const DensePeers& peers,
                                 const std::string& model_directory);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_PROGRESS_VIEW_H_
