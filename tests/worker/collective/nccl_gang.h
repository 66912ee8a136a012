// A gang of NcclCommunicators on the fake, with all that a test may touch.
#ifndef COMERA_TESTS_WORKER_COLLECTIVE_NCCL_GANG_H_
#define COMERA_TESTS_WORKER_COLLECTIVE_NCCL_GANG_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "tests/conformance/communicator/gang.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "worker/collective/nccl_communicator.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {

struct NcclRank {
  std::shared_ptr<FakeNccl::Rank> api;
  NcclApi::Stream stream = nullptr;  // the backend's
  NcclOptions options;
  absl::Status status;  // what creation returned
  std::unique_ptr<Communicator> communicator;

  FakeStream& backend() { return FakeNccl::Rank::StreamOf(stream); }
};

struct NcclGang {
  explicit NcclGang(int world_size) : ranks(world_size), folder(NewFolder()) {
    const auto nccl = std::make_shared<FakeNccl>();
    for (int i = 0; i < world_size; ++i) {
      NcclRank& rank = ranks[i];
      rank.api = std::make_shared<FakeNccl::Rank>(nccl);
      rank.stream = *rank.api->CreateStream();
      rank.options.api = rank.api;
      rank.options.backend_stream = rank.stream;
      rank.options.rank = i;
      rank.options.world_size = world_size;
      rank.options.leave_timeout = absl::Milliseconds(5);
    }
  }
  ~NcclGang() {
    for (NcclRank& rank : ranks) {
      rank.communicator.reset();
      rank.api->DestroyStream(rank.stream);
    }
  }

  void ForEach(const std::function<void(NcclOptions&)>& change) {
    for (NcclRank& rank : ranks) change(rank.options);
  }

  void Create(int i) {
    auto rendezvous = FileRendezvous::Open(folder);
    auto made = CreateNcclCommunicator(
        ranks[i].options, std::make_shared<FileRendezvous>(*rendezvous));
    ranks[i].status = made.status();
    if (made.ok()) ranks[i].communicator = *std::move(made);
  }

  // Creates all members at once; errors are in their status.
  void Create() {
    Run([this](int i) {
      Create(i);
      return absl::OkStatus();
    });
  }

  // Each member's body on its own thread.
  std::vector<absl::Status> Run(const std::function<absl::Status(int)>& body) {
    std::vector<absl::Status> statuses(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(static_cast<int>(i)); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  std::vector<NcclRank> ranks;
  std::string folder;
};

}  // namespace comera::collective

#endif  // COMERA_TESTS_WORKER_COLLECTIVE_NCCL_GANG_H_
