// Matches collectives of ranks, sums on stream threads, and injects faults.

#include "tests/fakes/nccl/fake_nccl.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/fakes/nccl/fake_sum.h"

namespace comera::collective {
namespace {

// Kinds of collectives in addition to the two types of AllReduce.
constexpr int kBroadcast = 2;
// How often a call reports that it is in progress.
constexpr int kPolls = 2;

struct Contribution {
  int kind = 0;
  int root = 0;
  void* data = nullptr;
  size_t count = 0;
};

}  // namespace

// All communicators with one id.
class FakeGroup {
 public:
  explicit FakeGroup(int world_size)
      : parts_(world_size), waiting_(world_size) {}

  bool all_here() const { return joined_ == world_size(); }
  bool all_finalized() const { return finalized_ == world_size(); }
  void Join() { ++joined_; }
  void Finalize() { ++finalized_; }
  // Removes a rank that was just aborted, so that its data are not summed.
  void Leave(int rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_[rank]) broken_ = true;
    changed_.notify_all();
  }

  void Meet(int rank, const Contribution& part,
            const std::atomic<bool>& aborted) {
    std::unique_lock<std::mutex> lock(mutex_);
    // A rank that was aborted while it waited here gives up its place.
    if (aborted || broken_) {
      broken_ = true;
      changed_.wait(lock, [&] { return aborted.load(); });
      return;
    }
    parts_[rank] = part;
    waiting_[rank] = true;
    const int64_t mine = round_;
    if (++arrived_ == world_size() && Perform()) {
      arrived_ = 0;
      ++round_;
      waiting_.assign(waiting_.size(), false);
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != mine || aborted; });
    if (round_ == mine) broken_ = true;
  }

 private:
  int world_size() const { return static_cast<int>(parts_.size()); }

  // Returns false if the collectives do not match; they then hang.
  bool Perform() {
    const Contribution& first = parts_[0];
    if (first.kind < 0) return false;
    for (const Contribution& part : parts_) {
      if (part.kind != first.kind || part.count != first.count ||
          part.root != first.root) {
        return false;
      }
    }
    if (first.kind == kBroadcast) {
      const void* from = parts_[first.root].data;
      for (const Contribution& part : parts_) {
        if (part.data != from) std::memcpy(part.data, from, first.count);
      }
      return true;
    }
    std::vector<void*> data;
    for (const Contribution& part : parts_) data.push_back(part.data);
    FakeSum(static_cast<NcclApi::Type>(first.kind), first.count, data);
    return true;
  }

  std::atomic<int> joined_{0}, finalized_{0};
  // Guards the following members.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Contribution> parts_;
  // The ranks that wait in this round.
  std::vector<bool> waiting_;
  int arrived_ = 0;
  int64_t round_ = 0;
  bool broken_ = false;
};

class FakeComm {
 public:
  FakeComm(std::shared_ptr<FakeGroup> group, int rank)
      : group(std::move(group)), rank(rank) {}

  const std::shared_ptr<FakeGroup> group;
  const int rank;
  std::atomic<bool> aborted{false};
  std::atomic<bool> finalizing{false};
  std::atomic<int> polls{kPolls};

  // Notes that a graph contains one of its collectives.
  void AddGraph(const std::shared_ptr<FakeGraph>& graph) {
    const std::lock_guard<std::mutex> lock(mutex_);
    graphs_.push_back(graph->gone);
  }
  // Waits for its graphs, which from NCCL 2.26 on a communicator must outlive.
  void AwaitGraphs() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_future<void>& graph : graphs_) graph.wait();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_future<void>> graphs_;
};

FakeNccl::FakeNccl() = default;
FakeNccl::~FakeNccl() = default;

std::shared_ptr<FakeGroup> FakeNccl::GroupOf(const std::string& id,
                                             int world_size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<FakeGroup>& group = groups_[id];
  if (group == nullptr) group = std::make_shared<FakeGroup>(world_size);
  return group;
}

FakeNccl::Rank::~Rank() {
  EXPECT_TRUE(comms_.empty()) << "a communicator is left";
  EXPECT_TRUE(memory_.empty()) << memory_.size() << " allocations are left";
  EXPECT_TRUE(streams_.empty()) << "a stream is left";
  EXPECT_EQ(events_, 0);
}

void FakeNccl::Rank::Set(Faults faults) {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_ = std::move(faults);
}

FakeNccl::Faults FakeNccl::Rank::faults() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return faults_;
}

NcclResult FakeNccl::Rank::ResultOf(const char* call) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = faults_.results.find(call);
  return found == faults_.results.end() ? NcclResult::kSuccess : found->second;
}

absl::Status FakeNccl::Rank::CudaOf(const char* call) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = faults_.cuda.find(call);
  return found == faults_.cuda.end() ? absl::OkStatus() : found->second;
}

std::shared_ptr<FakeComm> FakeNccl::Rank::Find(Comm comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = comms_.find(comm);
  if (found != comms_.end()) return found->second;
  ADD_FAILURE() << "a call with a communicator that is gone";
  return nullptr;
}

NcclResult FakeNccl::Rank::GetUniqueId(char* id) {
  const NcclResult result = ResultOf("ncclGetUniqueId");
  if (result != NcclResult::kSuccess) return result;
  const std::lock_guard<std::mutex> lock(nccl_->mutex_);
  std::memset(id, 0, kIdBytes);
  std::memcpy(id, &++nccl_->ids_, sizeof(nccl_->ids_));
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::Rank::CommInitRank(Comm* comm, int world_size,
                                        const char* id, int rank) {
  const NcclResult result = ResultOf("ncclCommInitRankConfig");
  if (result != NcclResult::kSuccess) return result;
  auto made = std::make_shared<FakeComm>(
      nccl_->GroupOf(std::string(id, kIdBytes), world_size), rank);
  made->group->Join();
  *comm = made.get();
  const std::lock_guard<std::mutex> lock(mutex_);
  comms_[made.get()] = std::move(made);
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::Rank::CommGetAsyncError(Comm comm, NcclResult* state) {
  const std::shared_ptr<FakeComm> c = Find(comm);
  if (c == nullptr) return NcclResult::kInvalidArgument;
  const Faults faults = this->faults();
  *state = NcclResult::kInProgress;
  if (faults.init_hangs || !c->group->all_here()) return NcclResult::kSuccess;
  if (c->finalizing && !c->group->all_finalized()) return NcclResult::kSuccess;
  if (faults.calls_hang) return NcclResult::kSuccess;
  if (c->polls > 0 && --c->polls >= 0) return NcclResult::kSuccess;
  *state = faults.async_error;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::Rank::CommFinalize(Comm comm) {
  const std::shared_ptr<FakeComm> c = Find(comm);
  if (c == nullptr) return NcclResult::kInvalidArgument;
  c->finalizing = true;
  c->group->Finalize();
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::Rank::CommDestroy(Comm comm) {
  const std::shared_ptr<FakeComm> c = Find(comm);
  if (c == nullptr) return NcclResult::kInvalidArgument;
  EXPECT_TRUE(c->group->all_finalized()) << "destroyed, not finalised";
  return CommAbort(comm);
}

NcclResult FakeNccl::Rank::CommAbort(Comm comm) {
  const std::shared_ptr<FakeComm> c = Find(comm);
  if (c == nullptr) return NcclResult::kInvalidArgument;
  c->aborted = true;
  c->group->Leave(c->rank);
  c->AwaitGraphs();
  const std::lock_guard<std::mutex> lock(mutex_);
  comms_.erase(comm);
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::Rank::Enqueue(const char* call, int root, void* data,
                                   size_t count, int kind, Comm comm,
                                   Stream stream) {
  const NcclResult result = ResultOf(call);
  if (result != NcclResult::kSuccess) return result;
  std::shared_ptr<FakeComm> c = Find(comm);
  if (c == nullptr) return NcclResult::kInvalidArgument;
  Contribution part{kind, root, data, count};
  // A kind that matches no other rank's collective.
  if (faults().collectives_hang) part.kind = -1 - c->rank;
  c->polls = kPolls;
  if (const auto graph = StreamOf(stream).graph()) c->AddGraph(graph);
  StreamOf(stream).Enqueue(
      [c, part] { c->group->Meet(c->rank, part, c->aborted); });
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::Rank::AllReduceSum(void* values, size_t count, Type type,
                                        Comm comm, Stream stream) {
  return Enqueue("ncclAllReduce", 0, values, count, static_cast<int>(type),
                 comm, stream);
}

NcclResult FakeNccl::Rank::Broadcast(void* bytes, size_t count, int root,
                                     Comm comm, Stream stream) {
  return Enqueue("ncclBroadcast", root, bytes, count, kBroadcast, comm, stream);
}

std::string FakeNccl::Rank::LastError(Comm) { return "as the test wanted"; }

absl::StatusOr<NcclApi::Stream> FakeNccl::Rank::CreateStream() {
  auto* stream = new FakeStream;
  streams_.insert(stream);
  return stream;
}

void FakeNccl::Rank::DestroyStream(Stream stream) {
  streams_.erase(stream);
  delete &StreamOf(stream);
}

absl::StatusOr<bool> FakeNccl::Rank::IsCapturing(Stream stream) {
  return StreamOf(stream).graph() != nullptr;
}

absl::StatusOr<NcclApi::Event> FakeNccl::Rank::CreateEvent() {
  const absl::Status status = CudaOf("cudaEventCreate");
  if (!status.ok()) return status;
  ++events_;
  return new FakeEvent;
}

void FakeNccl::Rank::DestroyEvent(Event event) {
  --events_;
  delete static_cast<FakeEvent*>(event);
}

absl::Status FakeNccl::Rank::RecordEvent(Event event, Stream stream) {
  static_cast<FakeEvent*>(event)->Record(StreamOf(stream));
  return absl::OkStatus();
}

absl::Status FakeNccl::Rank::StreamWaitEvent(Stream stream, Event event) {
  static_cast<FakeEvent*>(event)->Delay(StreamOf(stream));
  return absl::OkStatus();
}

absl::StatusOr<bool> FakeNccl::Rank::EventDone(Event event) {
  const absl::Status status = CudaOf("cudaEventQuery");
  if (!status.ok()) return status;
  return static_cast<FakeEvent*>(event)->Done();
}

absl::StatusOr<void*> FakeNccl::Rank::Allocate(int64_t bytes) {
  auto memory = std::make_unique<char[]>(bytes);
  void* const address = memory.get();
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_[address] = std::move(memory);
  return address;
}

// Like cudaFree, it waits for enqueued work, which may use the memory.
void FakeNccl::Rank::Free(void* memory) {
  for (Stream stream : streams_) StreamOf(stream).Synchronize();
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(memory_.erase(memory), 1u) << "freed twice, or never allocated";
}

absl::StatusOr<void*> FakeNccl::Rank::AllocateDevice(int64_t bytes) {
  const absl::Status status = CudaOf("cudaMalloc");
  if (!status.ok()) return status;
  return Allocate(bytes);
}

void FakeNccl::Rank::FreeDevice(void* memory) { Free(memory); }

absl::StatusOr<void*> FakeNccl::Rank::AllocateHost(int64_t bytes) {
  return Allocate(bytes);
}

void FakeNccl::Rank::FreeHost(void* memory) { Free(memory); }

absl::Status FakeNccl::Rank::CopyAsync(void* to, const void* from,
                                       int64_t bytes, Stream stream) {
  StreamOf(stream).Enqueue([=] { std::memcpy(to, from, bytes); });
  return absl::OkStatus();
}

absl::Status FakeNccl::Rank::ToBfloat16(const float* from, void* to,
                                        int64_t count, Stream stream) {
  StreamOf(stream).Enqueue([=] {
    for (int64_t i = 0; i < count; ++i) {
      static_cast<uint16_t*>(to)[i] = ToBits(from[i]);
    }
  });
  return absl::OkStatus();
}

absl::Status FakeNccl::Rank::FromBfloat16(const void* from, float* to,
                                          int64_t count, Stream stream) {
  StreamOf(stream).Enqueue([=] {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = ToFloat(static_cast<const uint16_t*>(from)[i]);
    }
  });
  return absl::OkStatus();
}

}  // namespace comera::collective
