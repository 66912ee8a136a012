#ifndef COMERA_SERVER_HOST_WORKER_PROBE_H_
#define COMERA_SERVER_HOST_WORKER_PROBE_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "server/coordinator/operation/effects.h"
#include "server/runtime/event_loop.h"

namespace comera::server {

// Asks machines whether worker processes are still there, by connecting to the
// port on which they listen as long as they live. A refused connection is the
// machine's own word that there is no such process; silence, as of a cut
// network, says nothing. A thread of its own; thread-safe.
class WorkerProbes {
 public:
  struct Options {
    absl::Duration timeout = absl::Seconds(1);
    // Refused twice, with this in between.
    absl::Duration pause = absl::Milliseconds(300);
    // More are passed over: they are asked again.
    int max_waiting = 64;
  };
  using OnGone = std::function<void(const WorkerProbe&)>;

  // `on_gone` is called on the probes' thread.
  WorkerProbes(const Options& options, OnGone on_gone)
      : options_(options), on_gone_(std::move(on_gone)) {}

  void Ask(WorkerProbe probe);

 private:
  const Options options_;
  const OnGone on_gone_;
  std::atomic<int> waiting_{0};
  EventLoop thread_;  // last: ends first
};

// Whether the machine answers that nobody listens on host:port.
bool ConnectionRefused(const std::string& address, absl::Duration timeout);

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_WORKER_PROBE_H_
