#ifndef COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_OUTPUT_H_
#define COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_OUTPUT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace comera::trainer {

// A pipe for what a program prints, which goes on to a descriptor of this
// process, and whose end is remembered. Move-only.
class ProgramOutput {
 public:
  // Unavailable: the system refuses.
  static absl::StatusOr<ProgramOutput> Make(int to);
  ~ProgramOutput();
  ProgramOutput(ProgramOutput&& other) noexcept;
  ProgramOutput& operator=(ProgramOutput&&) = delete;

  // Readable when there is something to pass on.
  int fd() const { return read_; }
  // The end that the program writes to.
  int write_fd() const { return write_; }
  // Closes this process's copy of that end.
  void CloseWriteEnd();
  // Passes on what has come.
  void PassOn();

  // The last line that names an exception of Python, "ValueError: no such
  // word"; empty if the last lines hold none.
  std::string LastException() const;

 private:
  ProgramOutput(int read, int write, int to)
      : read_(read), write_(write), to_(to) {}

  int read_;
  int write_;
  int to_;
  std::string tail_;
};

// The exception that the text, the end of a program's output, ends with; see
// ProgramOutput::LastException.
std::string LastExceptionIn(std::string_view text);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_OUTPUT_H_
