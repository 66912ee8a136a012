// Submits sweeps and follows them, for the verbs that do so.
#ifndef COMERA_CLIENT_CLI_VERBS_SWEEP_SUBMIT_H_
#define COMERA_CLIENT_CLI_VERBS_SWEEP_SUBMIT_H_

#include <optional>
#include <string>

#include "client/cli/session/session.h"
#include "client/cli/session/spec_input.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::client {

// A job file, as `comera submit` and `comera run` take it.
struct JobOrSearch {
  v1::JobSpec job;
  // Whether compression.method is AUTO; `search` is then the sweep to submit,
  // whose job is `job`.
  bool is_search = false;
  v1::SweepSpec search;
};

JobOrSearch MakeJobOrSearch(v1::JobSpec job);

// Reads a file of a job or a search, whose `sweep` section may be left out, and
// checks it. Prints errors on stderr, one line each, and then returns nothing.
std::optional<JobOrSearch> ReadJobOrSearch(const SpecInput& input,
                                           const Session& session);

// Prints what is wrong with the job or search on stderr, one line each. Returns
// whether nothing is. `file` stands for its file.
bool CheckJobOrSearch(const JobOrSearch& spec, const std::string& file,
                      const Session& session);
// The same of a sweep.
bool CheckSweep(const v1::SweepSpec& spec, const std::string& file,
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
