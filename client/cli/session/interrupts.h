// Turns Ctrl-C and SIGTERM into a callback.
#ifndef COMERA_CLIENT_CLI_SESSION_INTERRUPTS_H_
#define COMERA_CLIENT_CLI_SESSION_INTERRUPTS_H_

#include <atomic>
#include <functional>
#include <thread>

namespace comera::client {

// While it exists, the first SIGINT or SIGTERM calls `on_interrupt` on a thread
// of its own; a second one ends the process as usual. Only one may exist.
class Interrupts {
 public:
  explicit Interrupts(std::function<void()> on_interrupt);
  // Joins the thread and restores the signals' usual actions.
  ~Interrupts();

  bool happened() const { return happened_; }

 private:
  std::function<void()> on_interrupt_;
  std::atomic<bool> happened_{false};
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_INTERRUPTS_H_
