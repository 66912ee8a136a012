// Lists the devices, and starts and ends a backend on one of them.
#include "kernels/cuda/cuda_backend.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/shared_memory.h"

namespace comera::kernels {
namespace {

constexpr int kLeastMajor = 8;
// The compute capability on which launches may overlap.
constexpr int kOverlapMajor = 9;

// The count is 0 where there is no driver either: a machine without a GPU is no
// error.
absl::StatusOr<int> DeviceCount() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver) {
    cudaGetLastError();  // forgets it
    return 0;
  }
  if (code != cudaSuccess) return CudaStatus(code, "cudaGetDeviceCount");
  return count;
}

}  // namespace

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices() {
  ASSIGN_OR_RETURN(const int count, DeviceCount());
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, i));
    CudaDevice device;
    device.name = properties.name;
    char bus[32] = {};
    RETURN_IF_CUDA_ERROR(cudaDeviceGetPCIBusId(bus, sizeof(bus), i));
    device.pci_bus_id = bus;
    device.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    device.multiprocessors = properties.multiProcessorCount;
    device.major = properties.major;
    device.minor = properties.minor;
    devices.push_back(device);
  }
  return devices;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<CudaDevice> devices, ListCudaDevices());
  if (options.device < 0 ||
      options.device >= static_cast<int>(devices.size())) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA device ", options.device, " of ", devices.size(),
                     devices.empty() ? ": no GPU or no driver" : ""));
  }
  const CudaDevice& device = devices[options.device];
  if (device.major < kLeastMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat(device.name, " has compute capability ", device.major, ".",
                     device.minor, ", at least ", kLeastMajor, ".0 is needed"));
  }
  // No device of that capability has less; one that does would fail in the
  // middle of a step.
  if (const int64_t shared = SharedBytesPerBlock(options.device);
      shared < kLeastSharedBytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        device.name, " has ", shared, " bytes of shared memory for a block of ",
        "threads, at least ", kLeastSharedBytes, " are needed"));
  }
  CudaOptions possible = options;
  possible.overlap_launches &= device.major == kOverlapMajor;
  auto backend = std::make_unique<CudaBackend>(possible);
  RETURN_IF_ERROR(backend->Start());
  return backend;
}

void* CudaStreamOf(const Backend& backend) {
  return static_cast<const CudaBackend&>(backend).stream();
}

absl::Status CudaBackend::Start() {
  RETURN_IF_CUDA_ERROR(cudaSetDevice(options_.device));
  RETURN_IF_CUDA_ERROR(
      cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking));
  stream_.overlaps = options_.overlap_launches;
  constexpr int64_t kArrivedBytes = GroupedLaunches::kMostTiles * sizeof(int);
  RETURN_IF_CUDA_ERROR(
      cudaMalloc(reinterpret_cast<void**>(&arrived_), kArrivedBytes));
  RETURN_IF_CUDA_ERROR(cudaMemsetAsync(arrived_, 0, kArrivedBytes, stream_));
  RETURN_IF_CUDA_ERROR(cudaHostAlloc(reinterpret_cast<void**>(&staging_),
                                     2 * kStagingBytes, cudaHostAllocDefault));
  for (cudaEvent_t& event : staged_) {
    RETURN_IF_CUDA_ERROR(
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  for (cudaEvent_t& event : marks_) {
    RETURN_IF_CUDA_ERROR(
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  return absl::OkStatus();
}

absl::Status CudaBackend::StartCublas() {
  if (cublas_ready_) return absl::OkStatus();
  RETURN_IF_ERROR(CheckNotCapturing("the first product by cuBLAS"));
  if (cublas_workspace_ == nullptr) {
    const cudaError_t code = cudaMalloc(&cublas_workspace_, kCublasBytes);
    if (code != cudaSuccess) {
      cudaGetLastError();  // the next launch need not fail
      return CudaStatus(code, "the workspace of cuBLAS");
    }
  }
  const auto created = [](cublasStatus_t code, const char* call) {
    if (code != CUBLAS_STATUS_SUCCESS) cudaGetLastError();  // likewise
    return CublasStatus(code, call);
  };
  if (cublas_lt_ == nullptr) {
    RETURN_IF_ERROR(created(cublasLtCreate(&cublas_lt_), "cublasLtCreate"));
  }
  if (cublas_ == nullptr) {
    RETURN_IF_ERROR(created(cublasCreate(&cublas_), "cublasCreate"));
  }
  RETURN_IF_CUBLAS_ERROR(cublasSetStream(cublas_, stream_));
  // Its own memory: none is allocated in a captured step, and results repeat.
  RETURN_IF_CUBLAS_ERROR(
      cublasSetWorkspace(cublas_, cublas_workspace_, kCublasBytes));
  cublas_ready_ = true;
  return absl::OkStatus();
}

// A Start that failed half-way is undone too. Errors have nowhere to go.
CudaBackend::~CudaBackend() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (cublas_ != nullptr) cublasDestroy(cublas_);
  if (cublas_lt_ != nullptr) cublasLtDestroy(cublas_lt_);
  for (cudaEvent_t event : staged_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  for (cudaEvent_t event : marks_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (staging_ != nullptr) cudaFreeHost(staging_);
  cudaFree(cublas_workspace_);
  cudaFree(arrived_);
  for (void* const memory : scratch_) cudaFree(memory);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

}  // namespace comera::kernels
