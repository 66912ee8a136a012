// A fake of NCCL between threads of one process.
#ifndef COMERA_TESTS_FAKES_NCCL_FAKE_NCCL_H_
#define COMERA_TESTS_FAKES_NCCL_FAKE_NCCL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "tests/fakes/nccl/fake_stream.h"
#include "worker/collective/nccl_api.h"

namespace comera::collective {

class FakeComm;
class FakeGroup;

// The machine; each rank has an API object of its own. It really computes sums,
// in the order of the ranks, on the ranks' stream threads, with device memory
// that is this process's own.
//
// It is as strict as NCCL: an abort of one rank is not announced to the others,
// collectives that do not match hang until they are aborted, every call is in
// progress for a while, finalisation waits for all ranks, and the end of a
// communicator waits for the end of its graphs. It is stricter in that a call
// with a communicator that was destroyed, and memory or communicators that are
// left over, fail the test.
class FakeNccl {
 public:
  // May be changed while ranks run.
  struct Faults {
    // Whether initialisation stays in progress for ever.
    bool init_hangs = false;
    // Whether collectives enqueued from now on hang until they are aborted.
    bool collectives_hang = false;
    // Whether collectives are never accepted: the call stays in progress.
    bool calls_hang = false;
    // The results of calls by name, e.g. {"ncclAllReduce", ...}.
    std::map<std::string, NcclResult> results;
    // What CommGetAsyncError reports for a communicator that is formed.
    NcclResult async_error = NcclResult::kSuccess;
    // The statuses of CUDA functions by name.
    std::map<std::string, absl::Status> cuda;
  };

  class Rank;

  FakeNccl();
  ~FakeNccl();

 private:
  friend class Rank;
  friend class FakeGroup;

  std::shared_ptr<FakeGroup> GroupOf(const std::string& id, int world_size);

  std::mutex mutex_;
  int64_t ids_ = 0;
  std::map<std::string, std::shared_ptr<FakeGroup>> groups_;
};

// One rank's device and library.
class FakeNccl::Rank final : public NcclApi {
 public:
  explicit Rank(std::shared_ptr<FakeNccl> nccl) : nccl_(std::move(nccl)) {}
  ~Rank() override;

  void Set(Faults faults);
  // The fake behind a stream, for tests that use it as the backend's stream.
  static FakeStream& StreamOf(Stream stream) {
    return *static_cast<FakeStream*>(stream);
  }

  NcclResult GetUniqueId(char* id) override;
  NcclResult CommInitRank(Comm* comm, int world_size, const char* id,
                          int rank) override;
  NcclResult CommGetAsyncError(Comm comm, NcclResult* state) override;
  NcclResult CommFinalize(Comm comm) override;
  NcclResult CommDestroy(Comm comm) override;
  NcclResult CommAbort(Comm comm) override;
  NcclResult AllReduceSum(void* values, size_t count, Type type, Comm comm,
                          Stream stream) override;
  NcclResult Broadcast(void* bytes, size_t count, int root, Comm comm,
                       Stream stream) override;
  std::string LastError(Comm comm) override;

  absl::StatusOr<Stream> CreateStream() override;
  void DestroyStream(Stream stream) override;
  absl::StatusOr<bool> IsCapturing(Stream stream) override;
  absl::StatusOr<Event> CreateEvent() override;
  void DestroyEvent(Event event) override;
  absl::Status RecordEvent(Event event, Stream stream) override;
  absl::Status StreamWaitEvent(Stream stream, Event event) override;
  absl::StatusOr<bool> EventDone(Event event) override;
  absl::StatusOr<void*> AllocateDevice(int64_t bytes) override;
  void FreeDevice(void* memory) override;
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override;
  void FreeHost(void* memory) override;
  absl::Status CopyAsync(void* to, const void* from, int64_t bytes,
                         Stream stream) override;
  absl::Status ToBfloat16(const float* from, void* to, int64_t count,
                          Stream stream) override;
  absl::Status FromBfloat16(const void* from, float* to, int64_t count,
                            Stream stream) override;

 private:
  Faults faults() const;
  NcclResult ResultOf(const char* call) const;
  absl::Status CudaOf(const char* call) const;
  // Returns null and fails the test if the communicator was destroyed.
  std::shared_ptr<FakeComm> Find(Comm comm);
  NcclResult Enqueue(const char* call, int root, void* data, size_t count,
                     int kind, Comm comm, Stream stream);
  absl::StatusOr<void*> Allocate(int64_t bytes);
  void Free(void* memory);

  const std::shared_ptr<FakeNccl> nccl_;
  mutable std::mutex mutex_;
  Faults faults_;
  std::map<Comm, std::shared_ptr<FakeComm>> comms_;
  std::map<void*, std::unique_ptr<char[]>> memory_;
  std::set<Stream> streams_;
  int events_ = 0;
};

}  // namespace comera::collective

#endif  // COMERA_TESTS_FAKES_NCCL_FAKE_NCCL_H_
