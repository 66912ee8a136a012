// Makes gangs of threads for tests of communicators.
#ifndef COMERA_TESTS_CONFORMANCE_COMMUNICATOR_GANG_H_
#define COMERA_TESTS_CONFORMANCE_COMMUNICATOR_GANG_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"

namespace comera::collective {

using Gang = std::vector<std::unique_ptr<Communicator>>;

Gang InProcessGang(int world_size, absl::Duration timeout);
// The ranks are threads of this process, connected over loopback.
Gang GlooGang(int world_size, absl::Duration timeout);
// The same inside TLS, with new keys after some kilobytes.
Gang GlooTlsGang(int world_size, absl::Duration timeout);

// Makes all ranks at once, each on a thread of its own; fails the test if
// `make` returns an error.
Gang MakeRanks(
    int world_size,
    const std::function<
        absl::StatusOr<std::unique_ptr<Communicator>>(int rank)>& make);

// Returns a new empty folder below the test's temporary folder.
std::string NewFolder();

// Runs `body` for all ranks at once, each on its own thread.
std::vector<absl::Status> RunRanks(
    const Gang& gang, const std::function<absl::Status(Communicator&)>& body);

}  // namespace comera::collective

#endif  // COMERA_TESTS_CONFORMANCE_COMMUNICATOR_GANG_H_
