#ifndef COMERA_TESTS_E2E_COMMAND_H_
#define COMERA_TESTS_E2E_COMMAND_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace comera::e2e {

struct CommandResult {
  // 128 + signal if a signal ended it; -1 if it exceeded the limit and was
  // killed.
  int exit_code = -1;
  std::string out;
};

// Runs a program to its end; its standard error is appended to `stderr_path`.
CommandResult RunCommand(const std::vector<std::string>& argv,
                         const std::string& stderr_path, absl::Duration limit);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_COMMAND_H_
