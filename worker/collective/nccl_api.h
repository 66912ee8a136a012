// What NcclCommunicator needs of NCCL and of the CUDA runtime, one method per
// function, so that it is built and tested where there is neither.
#ifndef COMERA_WORKER_COLLECTIVE_NCCL_API_H_
#define COMERA_WORKER_COLLECTIVE_NCCL_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::collective {

// ncclResult_t, number by number.
enum class NcclResult {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// One device with its libraries.
//
// Thread safety: as NCCL and the CUDA runtime are. A communicator's collectives
// are called from one thread; its CommGetAsyncError and CommAbort from any.
class NcclApi {
 public:
  using Comm = void*;    // ncclComm_t
  using Stream = void*;  // cudaStream_t
  using Event = void*;   // cudaEvent_t, without timing
  enum class Type { kFloat32, kBfloat16 };

  static constexpr size_t kIdBytes = 128;  // NCCL_UNIQUE_ID_BYTES

  virtual ~NcclApi() = default;

  // --- NCCL -----------------------------------------------------------------
  // Writes kIdBytes.
  virtual NcclResult GetUniqueId(char* id) = 0;
  // ncclCommInitRankConfig, non-blocking: *comm is set at once, and it and the
  // calls on it are under way while CommGetAsyncError says kInProgress.
  virtual NcclResult CommInitRank(Comm* comm, int world_size, const char* id,
                                  int rank) = 0;
  virtual NcclResult CommGetAsyncError(Comm comm, NcclResult* state) = 0;
  // Under way until every member of the machine has called it.
  virtual NcclResult CommFinalize(Comm comm) = 0;
  // After a finalisation that has succeeded.
  virtual NcclResult CommDestroy(Comm comm) = 0;
  // Ends what runs on the device and frees the communicator; other members are
  // not told. Returns when the graphs that hold its collectives are destroyed.
  virtual NcclResult CommAbort(Comm comm) = 0;
  // In place.
  virtual NcclResult AllReduceSum(void* values, size_t count, Type type,
                                  Comm comm, Stream stream) = 0;
  // In place.
  virtual NcclResult Broadcast(void* bytes, size_t count, int root, Comm comm,
                               Stream stream) = 0;
  // What NCCL has to say about the last error; may be empty.
  virtual std::string LastError(Comm comm) = 0;

  // --- CUDA -----------------------------------------------------------------
  virtual absl::StatusOr<Stream> CreateStream() = 0;
  virtual void DestroyStream(Stream stream) = 0;
  virtual absl::StatusOr<bool> IsCapturing(Stream stream) = 0;
  virtual absl::StatusOr<Event> CreateEvent() = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual absl::Status RecordEvent(Event event, Stream stream) = 0;
  virtual absl::Status StreamWaitEvent(Stream stream, Event event) = 0;
  virtual absl::StatusOr<bool> EventDone(Event event) = 0;
  virtual absl::StatusOr<void*> AllocateDevice(int64_t bytes) = 0;
  virtual void FreeDevice(void* memory) = 0;
  // Page-locked.
  virtual absl::StatusOr<void*> AllocateHost(int64_t bytes) = 0;
  virtual void FreeHost(void* memory) = 0;
  // Between the device and page-locked memory, either way.
  virtual absl::Status CopyAsync(void* to, const void* from, int64_t bytes,
                                 Stream stream) = 0;
  // To the nearest bfloat16, ties to even; and back.
  virtual absl::Status ToBfloat16(const float* from, void* to, int64_t count,
                                  Stream stream) = 0;
  virtual absl::Status FromBfloat16(const void* from, float* to, int64_t count,
                                    Stream stream) = 0;
};

// NCCL as linked into this program (builds with --config=cuda only), on CUDA
// device number `device`.
std::unique_ptr<NcclApi> CreateLinkedNcclApi(int device);

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_NCCL_API_H_
