// Starts and reaps child processes.
#ifndef COMERA_CLIENT_CHILD_PROCESS_H_
#define COMERA_CLIENT_CHILD_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::client {

// What a child's standard streams are, and how it hangs together with this
// process.
struct ChildSettings {
  int input = -1;  // -1: nothing to read
  int output = -1;
  int errors = -1;
  // A process group of its own, so that Ctrl-C in the terminal does not reach
  // it; only without one may it read from the terminal.
  bool own_group = true;
  // What it gets when the calling thread ends.
  int parent_signal = SIGTERM;
};

// Starts `arguments[0]` with `arguments`, without this process's variables
// COMERA_*. Call this from a thread that lives as long as the child is wanted.
// NotFound, PermissionDenied: the program cannot be run; other errors of
// ErrnoStatus.
absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& arguments,
                                   const ChildSettings& settings);

// Starts `arguments[0]` with `arguments`, without standard input, its output
// appended to `log_path`, in a process group of its own. Otherwise the same.
absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& arguments,
                                   const std::string& log_path);

// How a child ended ("exit status 1", "signal 9"); nothing while it runs. Reaps
// the child, so the answer is given only once.
std::optional<std::string> EndOfProcess(pid_t pid);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CHILD_PROCESS_H_
