// The whole CLI as one function.
#ifndef COMERA_CLIENT_CLI_MAIN_CLI_H_
#define COMERA_CLIENT_CLI_MAIN_CLI_H_

#include <string>
#include <vector>

#include "client/cli/session/session.h"

namespace comera::client {

// Runs `comera ARGS...` and returns its exit code.
int RunCli(const std::vector<std::string>& args,
           const Environment& environment);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_MAIN_CLI_H_
