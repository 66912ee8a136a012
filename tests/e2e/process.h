// A child process whose standard output the test reads line by line.
#ifndef COMERA_TESTS_E2E_PROCESS_H_
#define COMERA_TESTS_E2E_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace comera::e2e {

// A child in a process group of its own. The destructor kills the group if the
// child still runs; if the thread that made it ends, the child alone is killed.
// Standard error goes to a file. Not thread-safe.
class Process {
 public:
  Process(const std::vector<std::string>& argv, const std::string& stderr_path);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Returns the next line, or nothing at the end of the output or after
  // `limit`.
  std::optional<std::string> ReadLine(absl::Duration limit);
  // Returns the exit code, 128 + signal, or nothing after `limit`.
  std::optional<int> Wait(absl::Duration limit);

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string buffer_;
  std::optional<int> exit_code_;
};

// The pids whose parent is `parent` and whose executable is called `name`.
std::vector<pid_t> Children(pid_t parent, const std::string& name);

// Returns true once a file of that name is complete (was renamed into place) in
// the existing `folder`, false after `limit`.
bool WaitForFile(const std::string& folder, const std::string& name,
                 absl::Duration limit);

// Returns true once `pid` has ended or is a zombie, false after `limit`. Works
// for processes that are not the test's own children.
bool WaitUntilGone(pid_t pid, absl::Duration limit);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_PROCESS_H_
