#ifndef COMERA_WORKER_COLLECTIVE_IN_PROCESS_COMMUNICATOR_H_
#define COMERA_WORKER_COLLECTIVE_IN_PROCESS_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "worker/collective/communicator.h"

namespace comera::collective {

struct InProcessOptions {
  // Longest wait for the other members in one collective.
  absl::Duration timeout = absl::Seconds(60);
};

// A gang of `world_size` threads of this process; element r is member r's, to
// be used by one thread. Sums are taken in the order of the members. When a
// member's communicator is destroyed the others' next unfinished collective
// ends with Unavailable. The communicators may be destroyed in any order.
std::vector<std::unique_ptr<Communicator>> CreateInProcessGroup(
    int world_size, const InProcessOptions& options = {});

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_IN_PROCESS_COMMUNICATOR_H_
