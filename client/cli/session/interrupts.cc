// Catches signals and calls back on a thread, through a pipe.

#include "client/cli/session/interrupts.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace comera::client {
namespace {

// The pipe for the signal handler, which gets no argument.
std::atomic<int> g_pipe{-1};

void Handle(int) {
  const int saved = errno;
  const char byte = 'i';
  // A full pipe means that an interrupt is pending already.
  if (write(g_pipe, &byte, 1) < 0) errno = saved;
  errno = saved;
}

void Install(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

Interrupts::Interrupts(std::function<void()> on_interrupt)
    : on_interrupt_(std::move(on_interrupt)) {
  // Without a pipe (no descriptors left) signals keep their usual meaning.
  if (pipe2(pipe_, O_CLOEXEC) != 0) return;
  g_pipe = pipe_[1];
  // SA_RESETHAND works per signal: the second one of a kind is not caught.
  Install(Handle, SA_RESTART | SA_RESETHAND);
  thread_ = std::thread([this] {
    char byte = 0;
    while (read(pipe_[0], &byte, 1) < 0 && errno == EINTR) {
    }
    if (byte != 'i') return;
    happened_ = true;
    on_interrupt_();
  });
}

Interrupts::~Interrupts() {
  if (!thread_.joinable()) return;
  Install(SIG_DFL, 0);
  const char byte = 'q';
  while (write(pipe_[1], &byte, 1) < 0 && errno == EINTR) {
  }
  thread_.join();
  g_pipe = -1;
  close(pipe_[0]);
  close(pipe_[1]);
}

}  // namespace comera::client
