// Scripts that make shells complete `comera`.
#ifndef COMERA_CLIENT_CLI_SHELL_COMPLETION_SCRIPTS_H_
#define COMERA_CLIENT_CLI_SHELL_COMPLETION_SCRIPTS_H_

#include <string>

namespace comera::client {

// `shell`: bash, zsh or fish. The script asks `comera __complete WORD...`,
// whose answer is that of CompletionText, so that it always fits the program
// that is installed.
std::string CompletionScript(const std::string& shell);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SHELL_COMPLETION_SCRIPTS_H_
