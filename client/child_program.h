// A child process whose lines are read while it runs.
#ifndef COMERA_CLIENT_CHILD_PROGRAM_H_
#define COMERA_CLIENT_CHILD_PROGRAM_H_

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::client {

// A running program, which ends with this object. Its environment is that of
// this process without the variables COMERA_*.
//
//   ASSIGN_OR_RETURN(auto program, ChildProgram::Start(command, options));
//   while (true) {
//     ASSIGN_OR_RETURN(const auto line, program->NextLine());
//     if (!line) break;
//     ...
//   }
//
// Stop may be called from any thread, the other methods from one at a time. The
// program also ends when the thread that started it does.
class ChildProgram {
 public:
  enum class Input {
    // Nothing to read.
    kNone,
    // The input of this process, in whose process group it stays: only such
    // programs may read from a terminal.
    kInherited,
    // What Send is given.
    kSent,
  };
  struct Options {
    Input input = Input::kNone;
    // Bytes of a line at most.
    size_t longest_line = size_t{1} << 20;
    // What it gets when the thread that started it ends.
    int parent_signal = SIGTERM;
  };
  // Why a program ended: its exit status, or the signal that ended it.
  struct End {
    bool by_signal = false;
    int code = 0;
  };

  // Starts `command`, the program and its arguments. NotFound,
  // PermissionDenied: it cannot be run; other errors of ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<ChildProgram>> Start(
      const std::vector<std::string>& command, const Options& options);
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  // Waits for the next line of its standard output; nothing at the end of that.
  // What follows the last line end is no line. ResourceExhausted: a line is too
  // long.
  absl::StatusOr<std::optional<std::string>> NextLine();
  // Sends text to its standard input, which is Input::kSent. False: it has
  // ended.
  bool Send(absl::string_view text);

  // Asks it to end (SIGTERM), or ends it at once.
  void Stop(bool at_once);
  // Waits until it has ended. Errors of ErrnoStatus.
  absl::StatusOr<End> WaitForEnd();
  // The last bytes, at most `most`, of its standard error so far, without the
  // space around them.
  std::string Errors(size_t most) const;

 private:
  ChildProgram(const Options& options) : options_(options) {}

  const Options options_;
  pid_t pid_ = -1;
  // The child's standard output, and its input if that is sent.
  int stream_ = -1;
  // The child's standard error, a file in memory.
  int errors_ = -1;
  std::string received_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CHILD_PROGRAM_H_
