// Makes in-process and Gloo gangs, and runs a body on every rank.

#include "tests/conformance/communicator/gang.h"

#include <stdlib.h>

#include <optional>
#include <thread>

#include "common/status_macros.h"
#include "gtest/gtest.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/gloo_tls.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {

std::string NewFolder() {
  std::string folder = testing::TempDir() + "/gang-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

Gang InProcessGang(int world_size, absl::Duration timeout) {
  InProcessOptions options;
  options.timeout = timeout;
  return CreateInProcessGroup(world_size, options);
}

Gang MakeRanks(
    int world_size,
    const std::function<
        absl::StatusOr<std::unique_ptr<Communicator>>(int rank)>& make) {
  Gang gang(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = make(rank);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      gang[rank] = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return gang;
}

namespace {

Gang MakeGloo(int world_size, absl::Duration timeout,
              const std::optional<GangTls>& tls) {
  const std::string folder = NewFolder();
  return MakeRanks(
      world_size,
      [&](int rank) -> absl::StatusOr<std::unique_ptr<Communicator>> {
        GlooOptions options;
        options.rank = rank;
        options.world_size = world_size;
        options.timeout = timeout;
        options.tls = tls;
        ASSIGN_OR_RETURN(FileRendezvous rendezvous,
                         FileRendezvous::Open(folder));
        return CreateGlooCommunicator(options, &rendezvous);
      });
}

}  // namespace

Gang GlooGang(int world_size, absl::Duration timeout) {
  return MakeGloo(world_size, timeout, std::nullopt);
}

Gang GlooTlsGang(int world_size, absl::Duration timeout) {
  return MakeGloo(world_size, timeout,
                  GangTls{std::string(GangTls::kKeyBytes, 'k'),
                          /*rekey_bytes=*/10000});
}

std::vector<absl::Status> RunRanks(
    const Gang& gang, const std::function<absl::Status(Communicator&)>& body) {
  std::vector<absl::Status> statuses(gang.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < gang.size(); ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = body(*gang[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace comera::collective
