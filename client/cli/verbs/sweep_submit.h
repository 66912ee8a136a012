// Submits sweeps and follows them, for the verbs that do so.
#ifndef COMERA_CLIENT_CLI_VERBS_SWEEP_SUBMIT_H_
#define COMERA_CLIENT_CLI_VERBS_SWEEP_SUBMIT_H_

#include <optional>
#include <string>

#include "client/cli/session/session.h"
#include "client/cli/session/spec_input.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::client {

// The sweep of a job whose compression.method is AUTO.
v1::SweepSpec SearchOf(const v1::JobSpec& job);

// Prints what is wrong with the sweep on stderr, one line each. Returns whether
// nothing is. `file` stands for its file.
bool CheckSweep(const v1::SweepSpec& spec, const std::string& file,
                const Session& session);

// Reads a job file, of a job or of a search, and checks it. Prints errors on
// stderr, one line each, and then returns nothing.
std::optional<v1::JobSpec> ReadCheckedSpec(const SpecInput& input,
                                           const Session& session);

struct SweepSubmission {
  std::string request_id;
  bool watch = false;
  bool dry_run = false;
};

// Submits a sound sweep, and prints its name or follows it. Returns the exit
// code.
int SubmitSweep(const v1::SweepSpec& spec, const SweepSubmission& submission,
                const Session& session);

// Follows the sweep until it ends or Ctrl-C detaches. Returns the exit code.
int WatchSweepVerb(const Session& session, const std::string& name);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_SWEEP_SUBMIT_H_
