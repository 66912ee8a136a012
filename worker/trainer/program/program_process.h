#ifndef COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_PROCESS_H_
#define COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::trainer {

// How a program ended.
struct ProgramExit {
  // 0 unless a signal ended it.
  int signal = 0;
  int code = 0;
};

// A running program: a child in this process's own group, so that whoever stops
// or kills the group does so to both. Destruction kills and reaps it.
class ProgramProcess {
 public:
  // Starts `arguments[0]` with this environment (KEY=VALUE) in `folder`. What
  // it prints, both ways, goes to the descriptor `output`; its standard input
  // is empty. It begins with no signal blocked or ignored.
  //
  // InvalidArgument: there is no such program or folder, or it may not be run;
  // the message says which. Unavailable: the system refuses.
  static absl::StatusOr<ProgramProcess> Start(
      const std::vector<std::string>& arguments,
      const std::vector<std::string>& environment, const std::string& folder,
      int output);
  ~ProgramProcess();
  ProgramProcess(ProgramProcess&& other) noexcept;
  ProgramProcess& operator=(ProgramProcess&&) = delete;

  // Readable once the program has ended.
  int pidfd() const { return pidfd_; }
  pid_t pid() const { return pid_; }

  void Signal(int signal) const;
  // Returns how the program ended; nothing while it runs.
  std::optional<ProgramExit> Poll();
  // The seconds of processor time that the processes of this group have used,
  // but for this one, and those that have ended and were waited for; it falls
  // when others end. 0 if the system does not say.
  double ProcessorSeconds() const;
  // The most memory that the program has had; 0 if the system does not say.
  int64_t PeakMemoryBytes() const;

 private:
  ProgramProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}

  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<ProgramExit> exit_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_PROCESS_H_
