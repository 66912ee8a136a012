// Runs a program to its end and collects its output.
#ifndef COMERA_CLIENT_PROGRAM_OUTPUT_H_
#define COMERA_CLIENT_PROGRAM_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::client {

// What a program wrote, and how it ended.
struct ProgramOutput {
  std::string out, err;
  int exit_code = 0;  // 128 + signal if one ended it
};

// Runs `arguments[0]` with `arguments`, without standard input, and waits for
// it. The program gets SIGTERM if the calling thread ends. NotFound,
// PermissionDenied: it cannot be run. ResourceExhausted: it wrote more than 64
// MiB. Unavailable: any other error of the system.
absl::StatusOr<ProgramOutput> RunProgram(
    const std::vector<std::string>& arguments);

}  // namespace comera::client

#endif  // COMERA_CLIENT_PROGRAM_OUTPUT_H_
