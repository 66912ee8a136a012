// Waits for stop signals on a thread.
#include "worker/trainer/process/stop_signals.h"

#include <pthread.h>

namespace comera::trainer {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  thread_ = std::thread([this] { Loop(); });
}

StopSignals::~StopSignals() {
  end_.store(true);
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes sigwait
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void StopSignals::Loop() {
  while (true) {
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0) continue;
    if (end_.load()) return;
    asked_.store(true);
  }
}

}  // namespace comera::trainer
