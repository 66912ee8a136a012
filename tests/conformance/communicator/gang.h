// Gangs of threads for tests of communicators.
#ifndef COMERA_TESTS_CONFORMANCE_COMMUNICATOR_GANG_H_
#define COMERA_TESTS_CONFORMANCE_COMMUNICATOR_GANG_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"

namespace comera::collective {

using Gang = std::vector<std::unique_ptr<Communicator>>;

// Makes a gang of `world_size` ranks whose collectives wait for `timeout`.
using GangFactory = std::function<Gang(int world_size, absl::Duration timeout)>;

Gang InProcessGang(int world_size, absl::Duration timeout);
// Ranks are threads of this process, connected over loopback.
Gang GlooGang(int world_size, absl::Duration timeout);

// A new empty folder below the test's temporary folder.
std::string NewFolder();

// Runs `body` for every rank at once, each on its own thread.
std::vector<absl::Status> RunRanks(
    const Gang& gang, const std::function<absl::Status(Communicator&)>& body);

}  // namespace comera::collective

#endif  // COMERA_TESTS_CONFORMANCE_COMMUNICATOR_GANG_H_
