#ifndef COMERA_WORKER_TRAINER_PROGRAM_EVENT_PIPE_H_
#define COMERA_WORKER_TRAINER_PROGRAM_EVENT_PIPE_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace comera::trainer {

// A named pipe from which lines are read. It never ends, whoever opens and
// closes it. Move-only.
class EventPipe {
 public:
  // Makes the pipe. Unavailable: the system refuses.
  static absl::StatusOr<EventPipe> Make(const std::string& path);
  ~EventPipe();
  EventPipe(EventPipe&& other) noexcept;
  EventPipe& operator=(EventPipe&&) = delete;

  // Readable when there is something to read.
  int fd() const { return fd_; }

  // Gives `on_line` the whole lines that have come; a line that is longer than
  // 1 MiB is passed over.
  void ReadLines(const std::function<void(std::string_view line)>& on_line);

 private:
  explicit EventPipe(int fd) : fd_(fd) {}

  int fd_;
  // The beginning of a line, and whether it is too long.
  std::string line_;
  bool cut_ = false;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_EVENT_PIPE_H_
