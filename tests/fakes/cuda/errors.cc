// Keeps the last and the sticky error, and makes the faults that tests ask for.
#include <atomic>
#include <mutex>

#include "tests/fakes/cuda/block_runner.h"
#include "tests/fakes/cuda/fake_state.h"

namespace comera::fake_cuda {
namespace {

std::atomic<cudaError_t> sticky_error{cudaSuccess};
thread_local cudaError_t last_error = cudaSuccess;

struct Fault {
  int64_t left = 0;  // 0: none
  cudaError_t code = cudaSuccess;
};

struct Faults {
  std::mutex mutex;
  Fault launch, allocation;
  Counts counts;
  FakeDevice device;
  std::vector<NotedWork>* noted = nullptr;
};
Faults& State() {
  static Faults* const faults = new Faults;
  return *faults;
}

cudaError_t Count(Fault& fault) {
  if (fault.left == 0 || --fault.left > 0) return cudaSuccess;
  return fault.code;
}

bool Stays(cudaError_t code) {
  switch (code) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

cudaError_t Return(cudaError_t code) {
  if (code == cudaSuccess) return code;
  last_error = code;
  if (Stays(code)) sticky_error = code;
  return code;
}

cudaError_t StickyError() { return sticky_error; }

cudaError_t CountLaunch(bool overlaps) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  ++State().counts.launches;
  if (!overlaps) ++State().counts.in_turn;
  return Count(State().launch);
}

cudaError_t CountAllocation() {
  const std::lock_guard<std::mutex> lock(State().mutex);
  ++State().counts.allocations;
  return Count(State().allocation);
}

void CountGraphLaunch() {
  const std::lock_guard<std::mutex> lock(State().mutex);
  ++State().counts.graph_launches;
}

void NoteWork(std::vector<NotedWork>* list) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().noted = list;
}

bool Note(const NotedWork& work) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  if (State().noted == nullptr) return false;
  State().noted->push_back(work);
  return true;
}

bool IsNoting() {
  const std::lock_guard<std::mutex> lock(State().mutex);
  return State().noted != nullptr;
}

void FailLaunch(int64_t n, cudaError_t code) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().launch = {n, code};
}

void FailAllocation(int64_t n, cudaError_t code) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().allocation = {n, code};
}

void AddBytes(int64_t device, int64_t pinned) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().counts.device_bytes += device;
  State().counts.pinned_bytes += pinned;
}

Counts CurrentCounts() {
  const std::lock_guard<std::mutex> lock(State().mutex);
  return State().counts;
}

FakeDevice CurrentDevice() {
  const std::lock_guard<std::mutex> lock(State().mutex);
  return State().device;
}

void SetFakeDevice(const FakeDevice& device) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().device = device;
}

void Reset() {
  SetFiberOrder(FiberOrder::kForward);
  sticky_error = cudaSuccess;
  last_error = cudaSuccess;
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().launch = {};
  State().allocation = {};
  State().device = {};
  State().noted = nullptr;
  Counts counts;
  counts.device_bytes = State().counts.device_bytes;
  counts.pinned_bytes = State().counts.pinned_bytes;
  State().counts = counts;
}

}  // namespace comera::fake_cuda

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = comera::fake_cuda::StickyError();
  return sticky != cudaSuccess ? sticky : comera::fake_cuda::last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t code = cudaPeekAtLastError();
  comera::fake_cuda::last_error = cudaSuccess;
  return code;
}

#define COMERA_ERRORS(X)                                                      \
  X(cudaSuccess, "no error")                                                  \
  X(cudaErrorInvalidValue, "invalid argument")                                \
  X(cudaErrorMemoryAllocation, "out of memory")                               \
  X(cudaErrorInitializationError, "initialization error")                     \
  X(cudaErrorInvalidConfiguration, "invalid configuration argument")          \
  X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")     \
  X(cudaErrorInsufficientDriver,                                              \
    "CUDA driver version is insufficient for CUDA runtime version")           \
  X(cudaErrorInvalidDeviceFunction, "invalid device function")                \
  X(cudaErrorNoDevice, "no CUDA-capable device is detected")                  \
  X(cudaErrorInvalidDevice, "invalid device ordinal")                         \
  X(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered")         \
  X(cudaErrorInvalidResourceHandle, "invalid resource handle")                \
  X(cudaErrorIllegalState,                                                    \
    "the operation cannot be performed in the present state")                 \
  X(cudaErrorNotReady, "device not ready")                                    \
  X(cudaErrorIllegalAddress, "an illegal memory access was encountered")      \
  X(cudaErrorLaunchOutOfResources, "too many resources requested for launch") \
  X(cudaErrorLaunchTimeout, "the launch timed out and was terminated")        \
  X(cudaErrorAssert, "device-side assert triggered")                          \
  X(cudaErrorMisalignedAddress, "misaligned address")                         \
  X(cudaErrorLaunchFailure, "unspecified launch failure")                     \
  X(cudaErrorNotPermitted, "operation not permitted")                         \
  X(cudaErrorNotSupported, "operation not supported")                         \
  X(cudaErrorStreamCaptureUnsupported,                                        \
    "operation not permitted when stream is capturing")                       \
  X(cudaErrorStreamCaptureInvalidated,                                        \
    "operation failed due to a previous error during capture")                \
  X(cudaErrorStreamCaptureMerge,                                              \
    "operation would result in a merge of separate capture sequences")        \
  X(cudaErrorStreamCaptureUnmatched,                                          \
    "capture was not ended in the same stream as it began")                   \
  X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")     \
  X(cudaErrorStreamCaptureIsolation,                                          \
    "dependency created on uncaptured work in another stream")                \
  X(cudaErrorStreamCaptureImplicit,                                           \
    "operation would make the legacy stream depend on a capturing "           \
    "blocking stream")                                                        \
  X(cudaErrorCapturedEvent,                                                   \
    "operation not permitted on an event last recorded in a capturing "       \
    "stream")                                                                 \
  X(cudaErrorStreamCaptureWrongThread,                                        \
    "attempt to terminate a thread-local capture sequence from another "      \
    "thread")                                                                 \
  X(cudaErrorUnknown, "unknown error")

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
#define COMERA_NAME(name, text) \
  case name:                    \
    return #name;
    COMERA_ERRORS(COMERA_NAME)
#undef COMERA_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
#define COMERA_TEXT(name, text) \
  case name:                    \
    return text;
    COMERA_ERRORS(COMERA_TEXT)
#undef COMERA_TEXT
  }
  return "unrecognized error code";
}
