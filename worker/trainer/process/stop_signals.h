#ifndef COMERA_WORKER_TRAINER_PROCESS_STOP_SIGNALS_H_
#define COMERA_WORKER_TRAINER_PROCESS_STOP_SIGNALS_H_

#include <signal.h>

#include <atomic>
#include <thread>

namespace comera::trainer {

// Turns SIGTERM and SIGINT into a flag.
//
// A thread of its own takes the signals; in all other threads they stay
// blocked. No handler may run on a training thread: oneDNN's matrix products
// use heap memory as their stack for a while, and the kernel would write the
// signal's frame over whatever lies below it.
//
// Life cycle: construct one per process, before any other thread starts (they
// inherit the blocked signals). Destruction gives the constructing thread its
// signals back.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& asked() const { return asked_; }
  // Does what a signal does.
  void Ask() { asked_.store(true); }

 private:
  void Loop();

  sigset_t signals_;
  sigset_t previous_;
  std::atomic<bool> asked_{false};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_STOP_SIGNALS_H_
