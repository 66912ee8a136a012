// The scripts that make shells complete `comera`.
#ifndef COMERA_CLIENT_CLI_SHELL_COMPLETION_SCRIPTS_H_
#define COMERA_CLIENT_CLI_SHELL_COMPLETION_SCRIPTS_H_

#include <string>

namespace comera::client {

// Returns the script for `shell`: bash, zsh or fish. It runs `comera __complete
// WORD...`, which prints CompletionText, so that it always matches the
// installed program.
std::string CompletionScript(const std::string& shell);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SHELL_COMPLETION_SCRIPTS_H_
