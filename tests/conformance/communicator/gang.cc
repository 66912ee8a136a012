#include "tests/conformance/communicator/gang.h"

#include <stdlib.h>

#include <thread>

#include "gtest/gtest.h"
#include "worker/collective/gloo_communicator.h"
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

Gang GlooGang(int world_size, absl::Duration timeout) {
  const std::string folder = NewFolder();
  Gang gang(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      GlooOptions options;
      options.rank = rank;
      options.world_size = world_size;
      options.timeout = timeout;
      absl::StatusOr<FileRendezvous> rendezvous = FileRendezvous::Open(folder);
      ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
      auto communicator = CreateGlooCommunicator(options, &*rendezvous);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      gang[rank] = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return gang;
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
