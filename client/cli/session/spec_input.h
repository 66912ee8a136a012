// Reads job files named on the command line, with --set.
#ifndef COMERA_CLIENT_CLI_SESSION_SPEC_INPUT_H_
#define COMERA_CLIENT_CLI_SESSION_SPEC_INPUT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/session/session.h"
#include "client/cli/session/verb.h"
#include "client/job_file.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

// The job file and the changes that a command line names.
struct SpecInput {
  std::string file;
  std::vector<std::string> assignments;
};

// The arguments that fill `input`.
std::vector<Argument> SpecArguments(SpecInput* input);

// Reads the file and applies the assignments as far as they can be read. Notes
// on former names of fields go to stderr.
JobFileText ReadSpec(const SpecInput& input, const Session& session);

// Reads the spec and validates it. Prints errors on stderr, one line each, and
// then returns nothing.
std::optional<v1::JobSpec> ReadSoundSpec(const SpecInput& input,
                                         const Session& session);

// Prints what is wrong with the text and with the job in it, one line for each
// mistake, with the line where the field stands; returns whether nothing is.
// `file` stands for the job's file.
bool CheckText(const JobFileText& text, const std::string& file,
               const Session& session);

// Prints an error that may have several lines.
void FailLines(const absl::Status& status, const Session& session);

// Validates a job. Prints errors on stderr, one line each; returns whether
// there are none. `file` stands for the job's file.
bool CheckSpec(const v1::JobSpec& spec, const std::string& file,
               const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_SPEC_INPUT_H_
