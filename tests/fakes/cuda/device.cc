// Device properties, and the checks of a kernel's launch.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "tests/fakes/cuda/fake_state.h"

namespace comera::fake_cuda {
namespace {

constexpr size_t kSharedBytes = 48 * 1024;
constexpr int kThreadsPerBlock = 1024;
constexpr int kL2Bytes = 50 * 1024 * 1024;

thread_local int current_device = 0;

struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, size_t> allowed;
};
SharedLimits& Limits() {
  static SharedLimits* const limits = new SharedLimits;
  return *limits;
}

size_t SharedOptinBytes() {
  return static_cast<size_t>(CurrentDevice().shared_bytes);
}

// What a kernel was allowed holds as far as the device still has it.
size_t AllowedShared(const void* kernel) {
  const std::lock_guard<std::mutex> lock(Limits().mutex);
  const auto found = Limits().allowed.find(kernel);
  return found == Limits().allowed.end()
             ? kSharedBytes
             : std::min(found->second, SharedOptinBytes());
}

bool Overlaps(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
        attribute.val.programmaticStreamSerializationAllowed != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

cudaError_t EnqueueKernel(const cudaLaunchConfig_t& config, const void* kernel,
                          std::function<void()> thread) {
  RETURN_IF_STICKY();
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 ||
      block.z > 64 || threads > kThreadsPerBlock) {
    return Return(cudaErrorInvalidConfiguration);
  }
  if (config.dynamicSmemBytes > AllowedShared(kernel)) {
    return Return(cudaErrorInvalidValue);
  }
  if (const cudaError_t fault = CountLaunch(Overlaps(config));
      fault != cudaSuccess) {
    return Return(fault);
  }
  NotedWork noted;
  noted.blocks = int64_t{grid.x} * grid.y * grid.z;
  if (Note(noted)) return cudaSuccess;
  GridShape shape;
  shape.grid = grid;
  shape.block = block;
  shape.shared_bytes = config.dynamicSmemBytes;
  shape.kernel = kernel;
  shape.overlaps = Overlaps(config);
  return Enqueue(config.stream, [shape, thread = std::move(thread)] {
    // Asynchronous, as on a device: later calls report the failure.
    if (!RunGrid(shape, thread)) Return(cudaErrorLaunchFailure);
    return cudaSuccess;
  });
}

}  // namespace comera::fake_cuda

using comera::fake_cuda::CurrentDevice;
using comera::fake_cuda::FakeDevice;
using comera::fake_cuda::Return;

cudaError_t cudaFuncSetAttribute(const void* function,
                                 cudaFuncAttribute attribute, int value) {
  RETURN_IF_STICKY();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
    return cudaSuccess;
  }
  if (value < 0 ||
      static_cast<size_t>(value) > comera::fake_cuda::SharedOptinBytes()) {
    return Return(cudaErrorInvalidValue);
  }
  auto& limits = comera::fake_cuda::Limits();
  const std::lock_guard<std::mutex> lock(limits.mutex);
  limits.allowed[function] = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = CurrentDevice().count;
  return *count == 0 ? Return(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  RETURN_IF_STICKY();
  const int count = CurrentDevice().count;
  if (count == 0) return Return(cudaErrorNoDevice);
  if (device < 0 || device >= count) return Return(cudaErrorInvalidDevice);
  comera::fake_cuda::current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  RETURN_IF_STICKY();
  *device = comera::fake_cuda::current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  RETURN_IF_STICKY();
  const FakeDevice fake = CurrentDevice();
  if (device < 0 || device >= fake.count) {
    return Return(cudaErrorInvalidDevice);
  }
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof(p.name), "CUDA on the processor");
  p.uuid.bytes[15] = static_cast<char>(device + 1);
  p.totalGlobalMem = static_cast<size_t>(fake.total_bytes);
  p.sharedMemPerBlock = comera::fake_cuda::kSharedBytes;
  p.sharedMemPerBlockOptin = static_cast<size_t>(fake.shared_bytes);
  p.reservedSharedMemPerBlock = 1024;
  p.sharedMemPerMultiprocessor =
      p.sharedMemPerBlockOptin + p.reservedSharedMemPerBlock;
  p.regsPerBlock = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = comera::fake_cuda::kThreadsPerBlock;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.maxThreadsPerMultiProcessor = 2048;
  p.multiProcessorCount = fake.multiprocessors;
  p.major = fake.major;
  p.minor = fake.minor;
  p.l2CacheSize = comera::fake_cuda::kL2Bytes;
  p.memoryBusWidth = 6144;
  p.ECCEnabled = 1;
  p.pciBusID = device + 1;
  *properties = p;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device) {
  cudaDeviceProp p;
  if (const cudaError_t code = cudaGetDeviceProperties(&p, device);
      code != cudaSuccess) {
    return code;
  }
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      return cudaSuccess;
    case cudaDevAttrClockRate:
      *value = 1'980'000;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 3'201'000;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = p.memoryBusWidth;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return Return(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  RETURN_IF_STICKY();
  if (device < 0 || device >= CurrentDevice().count) {
    return Return(cudaErrorInvalidDevice);
  }
  std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  RETURN_IF_STICKY();
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CurrentDevice().count == 0 ? 0 : CUDART_VERSION;
  return cudaSuccess;
}
