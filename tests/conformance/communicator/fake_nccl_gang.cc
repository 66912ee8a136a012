// Connects NcclCommunicators over one FakeNccl.

#include "tests/conformance/communicator/fake_nccl_gang.h"

#include "common/status_macros.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "worker/collective/nccl_communicator.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {

Gang FakeNcclGang(int world_size, absl::Duration timeout) {
  const std::string folder = NewFolder();
  const auto nccl = std::make_shared<FakeNccl>();
  return MakeRanks(
      world_size,
      [&](int rank) -> absl::StatusOr<std::unique_ptr<Communicator>> {
        NcclOptions options;
        options.rank = rank;
        options.world_size = world_size;
        options.api = std::make_shared<FakeNccl::Rank>(nccl);
        options.timeout = timeout;
        // Gangs are destroyed one rank at a time, so a rank cannot wait for the
        // others.
        options.leave_timeout = absl::Milliseconds(5);
        ASSIGN_OR_RETURN(FileRendezvous rendezvous,
                         FileRendezvous::Open(folder));
        return CreateNcclCommunicator(
            options, std::make_shared<FileRendezvous>(std::move(rendezvous)));
      });
}

}  // namespace comera::collective
