// NcclApi over the NCCL and the CUDA runtime that this program is linked with.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstring>

#include "common/status_macros.h"
#include "kernels/cuda/bf16_convert.h"
#include "kernels/cuda/cuda_status.h"
#include "worker/collective/nccl_api.h"

namespace comera::collective {
namespace {

static_assert(NcclApi::kIdBytes == NCCL_UNIQUE_ID_BYTES);
static_assert(static_cast<int>(NcclResult::kUnhandledCudaError) ==
              ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::kSystemError) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::kInternalError) ==
              ncclInternalError);
static_assert(static_cast<int>(NcclResult::kInvalidArgument) ==
              ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::kInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);

NcclResult ToResult(ncclResult_t result) {
  return static_cast<NcclResult>(static_cast<int>(result));
}
ncclComm_t ToComm(NcclApi::Comm comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t ToStream(NcclApi::Stream stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t ToEvent(NcclApi::Event event) {
  return static_cast<cudaEvent_t>(event);
}

// Every thread has a current device of its own, so whatever makes something
// takes the device first. Frees need no device.
class LinkedNcclApi final : public NcclApi {
 public:
  explicit LinkedNcclApi(int device) : device_(device) {}

  NcclResult GetUniqueId(char* id) override {
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId(&made);
    if (result == ncclSuccess) std::memcpy(id, made.internal, kIdBytes);
    return ToResult(result);
  }

  NcclResult CommInitRank(Comm* comm, int world_size, const char* id,
                          int rank) override {
    if (cudaSetDevice(device_) != cudaSuccess) {
      return NcclResult::kUnhandledCudaError;
    }
    ncclUniqueId from;
    std::memcpy(from.internal, id, kIdBytes);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t made = nullptr;
    const ncclResult_t result =
        ncclCommInitRankConfig(&made, world_size, from, rank, &config);
    *comm = made;
    return ToResult(result);
  }

  NcclResult CommGetAsyncError(Comm comm, NcclResult* state) override {
    ncclResult_t told = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(ToComm(comm), &told);
    *state = ToResult(told);
    return ToResult(result);
  }

  NcclResult CommFinalize(Comm comm) override {
    return ToResult(ncclCommFinalize(ToComm(comm)));
  }
  NcclResult CommDestroy(Comm comm) override {
    return ToResult(ncclCommDestroy(ToComm(comm)));
  }
  NcclResult CommAbort(Comm comm) override {
    return ToResult(ncclCommAbort(ToComm(comm)));
  }

  NcclResult AllReduceSum(void* values, size_t count, Type type, Comm comm,
                          Stream stream) override {
    return ToResult(
        ncclAllReduce(values, values, count,
                      type == Type::kBfloat16 ? ncclBfloat16 : ncclFloat32,
                      ncclSum, ToComm(comm), ToStream(stream)));
  }
  NcclResult Broadcast(void* bytes, size_t count, int root, Comm comm,
                       Stream stream) override {
    return ToResult(ncclBroadcast(bytes, bytes, count, ncclUint8, root,
                                  ToComm(comm), ToStream(stream)));
  }
  std::string LastError(Comm comm) override {
    const char* const text = ncclGetLastError(ToComm(comm));
    return text == nullptr ? "" : text;
  }

  absl::StatusOr<Stream> CreateStream() override {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(device_));
    // Before the backend's work of the same time: others wait for this rank.
    int least = 0, greatest = 0;
    RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream = nullptr;
    RETURN_IF_CUDA_ERROR(
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    return Stream{stream};
  }
  void DestroyStream(Stream stream) override {
    cudaStreamDestroy(ToStream(stream));
  }
  absl::StatusOr<bool> IsCapturing(Stream stream) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    RETURN_IF_CUDA_ERROR(cudaStreamIsCapturing(ToStream(stream), &status));
    return status != cudaStreamCaptureStatusNone;
  }
  absl::StatusOr<Event> CreateEvent() override {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(device_));
    cudaEvent_t event = nullptr;
    RETURN_IF_CUDA_ERROR(
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return Event{event};
  }
  void DestroyEvent(Event event) override { cudaEventDestroy(ToEvent(event)); }
  absl::Status RecordEvent(Event event, Stream stream) override {
    RETURN_IF_CUDA_ERROR(cudaEventRecord(ToEvent(event), ToStream(stream)));
    return absl::OkStatus();
  }
  absl::Status StreamWaitEvent(Stream stream, Event event) override {
    RETURN_IF_CUDA_ERROR(
        cudaStreamWaitEvent(ToStream(stream), ToEvent(event), 0));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> EventDone(Event event) override {
    const cudaError_t code = cudaEventQuery(ToEvent(event));
    if (code == cudaErrorNotReady) return false;
    if (code != cudaSuccess) {
      return kernels::CudaStatus(code, "cudaEventQuery");
    }
    return true;
  }

  absl::StatusOr<void*> AllocateDevice(int64_t bytes) override {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(device_));
    void* memory = nullptr;
    RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, static_cast<size_t>(bytes)));
    return memory;
  }
  void FreeDevice(void* memory) override { cudaFree(memory); }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    RETURN_IF_CUDA_ERROR(cudaSetDevice(device_));
    void* memory = nullptr;
    RETURN_IF_CUDA_ERROR(cudaHostAlloc(&memory, static_cast<size_t>(bytes),
                                       cudaHostAllocDefault));
    return memory;
  }
  void FreeHost(void* memory) override { cudaFreeHost(memory); }
  absl::Status CopyAsync(void* to, const void* from, int64_t bytes,
                         Stream stream) override {
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                         cudaMemcpyDefault, ToStream(stream)));
    return absl::OkStatus();
  }
  absl::Status ToBfloat16(const float* from, void* to, int64_t count,
                          Stream stream) override {
    return kernels::FloatsToBf16(count, from, to, ToStream(stream));
  }
  absl::Status FromBfloat16(const void* from, float* to, int64_t count,
                            Stream stream) override {
    return kernels::Bf16ToFloats(count, from, to, ToStream(stream));
  }

 private:
  const int device_;
};

}  // namespace

std::unique_ptr<NcclApi> CreateLinkedNcclApi(int device) {
  return std::make_unique<LinkedNcclApi>(device);
}

}  // namespace comera::collective
