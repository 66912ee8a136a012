// Runs a program to its end within a time limit.

#include "tests/e2e/command.h"

#include <optional>

#include "absl/time/clock.h"
#include "tests/e2e/process.h"

namespace comera::e2e {

CommandResult RunCommand(const std::vector<std::string>& argv,
                         const std::string& stderr_path, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  Process process(argv, stderr_path);
  CommandResult result;
  while (const auto line = process.ReadLine(deadline - absl::Now())) {
    result.out += *line + "\n";
  }
  const std::optional<int> code =
      process.Wait(deadline - absl::Now() + absl::Seconds(1));
  if (code) result.exit_code = *code;
  return result;
}

}  // namespace comera::e2e
