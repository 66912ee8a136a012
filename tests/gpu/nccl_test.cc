// Runs NcclCommunicator over NCCL itself: the conformance suite at the world
// sizes that the machine's GPUs allow, and tests of what only a device shows.
#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_status.h"
#include "tests/conformance/communicator/conformance.h"
#include "worker/collective/nccl_communicator.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {
namespace {

using kernels::CudaStatus;
using ::testing::Each;

int Gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Fails everything at once on a machine without a GPU.
class NeedsGpus : public testing::Environment {
 public:
  void SetUp() override { ASSERT_GT(Gpus(), 0) << "no GPU, or no driver"; }
};
[[maybe_unused]] const testing::Environment* const kNeedsGpus =
    testing::AddGlobalTestEnvironment(new NeedsGpus);

absl::StatusOr<std::unique_ptr<Communicator>> Join(NcclOptions options,
                                                   const std::string& folder) {
  options.api = CreateLinkedNcclApi(options.rank);
  // Gangs are destroyed one rank at a time, so a rank cannot wait for the
  // others.
  options.leave_timeout = absl::Milliseconds(50);
  ASSIGN_OR_RETURN(FileRendezvous rendezvous, FileRendezvous::Open(folder));
  return CreateNcclCommunicator(
      options, std::make_shared<FileRendezvous>(std::move(rendezvous)));
}

Gang GpuGang(int world_size, absl::Duration timeout) {
  const std::string folder = NewFolder();
  return MakeRanks(world_size, [&](int rank) {
    NcclOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.timeout = timeout;
    return Join(options, folder);
  });
}

Implementation OnGpus() {
  return {"Nccl", GpuGang, std::max(1, Gpus()), /*compares_sizes=*/false};
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorTest, testing::Values(OnGpus()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(All, CommunicatorSizesTest,
                         testing::Combine(testing::Values(OnGpus()),
                                          testing::Range(1, 9)),
                         NameOfSize);

// A rank with a stream that stands for the backend's.
class DeviceRank {
 public:
  absl::Status Start(const NcclOptions& options, const std::string& folder) {
    RETURN_IF_ERROR(CudaStatus(cudaSetDevice(options.rank), "device"));
    RETURN_IF_ERROR(CudaStatus(
        cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"));
    RETURN_IF_ERROR(
        CudaStatus(cudaMalloc(&values_, kCount * sizeof(float)), "memory"));
    NcclOptions own = options;
    own.backend_stream = stream_;
    ASSIGN_OR_RETURN(communicator_, Join(own, folder));
    return absl::OkStatus();
  }
  ~DeviceRank() {
    communicator_.reset();
    cudaFree(values_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  Communicator& communicator() { return *communicator_; }
  cudaStream_t stream() { return stream_; }
  absl::Span<float> values() { return absl::MakeSpan(values_, kCount); }

  // Sums the values for what is enqueued next.
  absl::Status Sum(size_t exact_tail = 0) {
    RETURN_IF_ERROR(communicator_->EnqueueAllReduce(values(), exact_tail));
    return communicator_->JoinAllReduces();
  }

  absl::Status Set(const std::vector<float>& values) {
    return CudaStatus(
        cudaMemcpyAsync(values_, values.data(), kCount * sizeof(float),
                        cudaMemcpyHostToDevice, stream_),
        "in");
  }
  absl::StatusOr<std::vector<float>> Get() {
    std::vector<float> values(kCount);
    RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(values.data(), values_, kCount * sizeof(float),
                        cudaMemcpyDeviceToHost, stream_),
        "out"));
    RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_), "wait"));
    return values;
  }

  static constexpr int kCount = 100003;

 private:
  std::unique_ptr<Communicator> communicator_;
  cudaStream_t stream_ = nullptr;
  float* values_ = nullptr;
};

// Runs `body` for one rank on each GPU.
std::vector<absl::Status> OnAllGpus(
    NcclOptions options, const std::function<absl::Status(DeviceRank&)>& body) {
  options.world_size = std::max(1, Gpus());
  const std::string folder = NewFolder();
  std::vector<absl::Status> statuses(options.world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      NcclOptions own = options;
      own.rank = rank;
      DeviceRank device;
      statuses[rank] = device.Start(own, folder);
      if (statuses[rank].ok()) statuses[rank] = body(device);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<float> Integers(int rank) {
  std::vector<float> values(DeviceRank::kCount);
  for (int i = 0; i < DeviceRank::kCount; ++i) {
    values[i] = static_cast<float>(i % 1000 + rank);
  }
  return values;
}

TEST(NcclDeviceTest, SumsAreOrderedWithTheStream) {
  EXPECT_THAT(
      OnAllGpus({},
                [](DeviceRank& rank) -> absl::Status {
                  const int ranks = rank.communicator().world_size();
                  for (int round = 0; round < 50; ++round) {
                    const auto in =
                        Integers(round + rank.communicator().rank());
                    RETURN_IF_ERROR(rank.Set(in));
                    RETURN_IF_ERROR(rank.Sum());
                    ASSIGN_OR_RETURN(const std::vector<float> out, rank.Get());
                    const int others = ranks * (ranks - 1) / 2;
                    for (int i = 0; i < DeviceRank::kCount; ++i) {
                      EXPECT_EQ(out[i], ranks * (i % 1000 + round) + others);
                    }
                  }
                  RETURN_IF_ERROR(rank.communicator().Barrier());
                  EXPECT_EQ(rank.communicator().collectives_done(), 51);
                  return absl::OkStatus();
                }),
      Each(IsOk()));
}

TEST(NcclDeviceTest, SumsInAGraph) {
  EXPECT_THAT(
      OnAllGpus({},
                [](DeviceRank& rank) -> absl::Status {
                  Communicator& gang = rank.communicator();
                  RETURN_IF_ERROR(rank.Set(Integers(gang.rank())));
                  RETURN_IF_ERROR(rank.Sum());
                  RETURN_IF_ERROR(rank.Get().status());
                  cudaGraph_t graph = nullptr;
                  cudaGraphExec_t exec = nullptr;
                  RETURN_IF_ERROR(CudaStatus(
                      cudaStreamBeginCapture(rank.stream(),
                                             cudaStreamCaptureModeThreadLocal),
                      "begin"));
                  RETURN_IF_ERROR(rank.Sum());
                  RETURN_IF_ERROR(CudaStatus(
                      cudaStreamEndCapture(rank.stream(), &graph), "end"));
                  RETURN_IF_ERROR(CudaStatus(
                      cudaGraphInstantiate(&exec, graph, 0), "make"));
                  RETURN_IF_ERROR(rank.Set(Integers(gang.rank())));
                  for (int replay = 0; replay < 2; ++replay) {
                    RETURN_IF_ERROR(CudaStatus(
                        cudaGraphLaunch(exec, rank.stream()), "launch"));
                    RETURN_IF_ERROR(gang.Replayed(1));
                  }
                  ASSIGN_OR_RETURN(const std::vector<float> out, rank.Get());
                  const int n = gang.world_size();
                  for (int i = 0; i < DeviceRank::kCount; ++i) {
                    EXPECT_EQ(out[i], n * (n * (i % 1000) + n * (n - 1) / 2));
                  }
                  RETURN_IF_ERROR(gang.Barrier());
                  EXPECT_EQ(gang.collectives_done(), 4);
                  cudaGraphExecDestroy(exec);
                  cudaGraphDestroy(graph);
                  return absl::OkStatus();
                }),
      Each(IsOk()));
}

TEST(NcclDeviceTest, CompressedSumsKeepTheirBound) {
  NcclOptions options;
  options.compress = true;
  EXPECT_THAT(
      OnAllGpus(options,
                [](DeviceRank& rank) -> absl::Status {
                  Communicator& gang = rank.communicator();
                  const int n = gang.world_size();
                  RETURN_IF_ERROR(rank.Set(Integers(gang.rank())));
                  RETURN_IF_ERROR(rank.Sum(/*exact_tail=*/4));
                  ASSIGN_OR_RETURN(const std::vector<float> out, rank.Get());
                  for (int i = 0; i < DeviceRank::kCount; ++i) {
                    const double sum = n * (i % 1000) + n * (n - 1) / 2;
                    const bool exact = i >= DeviceRank::kCount - 4;
                    EXPECT_NEAR(out[i], sum, exact ? 0 : n / 256.0 * sum) << i;
                  }
                  return absl::OkStatus();
                }),
      Each(IsOk()));
}

// The kernel of the all-reduce waits on the device for a rank that never
// enqueues; the time-out ends it.
TEST(NcclDeviceTest, TheDeviceNeverWaitsForEver) {
  if (Gpus() < 2) GTEST_SKIP() << "needs 2 GPUs";
  NcclOptions options;
  options.timeout = absl::Seconds(2);
  const auto statuses = OnAllGpus(options, [](DeviceRank& rank) {
    if (rank.communicator().rank() > 0) return absl::OkStatus();
    const absl::Status enqueued = rank.Sum();
    if (!enqueued.ok()) return enqueued;
    EXPECT_OK(rank.Get());
    return rank.communicator().Barrier();
  });
  EXPECT_FALSE(statuses[0].ok());
}

}  // namespace
}  // namespace comera::collective
