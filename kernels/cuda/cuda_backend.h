// The operations on an NVIDIA GPU: cuBLAS for large matrix products, own
// kernels for the rest. In builds with the CUDA toolkit only.
#ifndef COMERA_KERNELS_CUDA_CUDA_BACKEND_H_
#define COMERA_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace comera::kernels {

// How matrix products take their operands. Everything else, and every sum, is
// float32; so is all memory.
enum class CudaPrecision {
  kFp32,
  kTf32,  // 10 bits of mantissa
  kBf16,  // 7 bits of mantissa
};

struct CudaOptions {
  // The number of the device among those that CUDA_VISIBLE_DEVICES leaves.
  int device = 0;
  CudaPrecision precision = CudaPrecision::kFp32;
  // All allocations together; 0: the device's memory.
  int64_t memory_limit_bytes = 0;
  // Whether a kernel is set up while the one before it still runs, which hides
  // part of a launch's cost (programmatic dependent launch). Results are the
  // same. It has no effect on devices of another compute capability than 9.0,
  // the only one whose compiled kernels are checked
  // (tests/gpu/machine_code.py).
  bool overlap_launches = false;
};

// A device as the CUDA runtime sees it.
struct CudaDevice {
  std::string name;
  std::string pci_bus_id;
  int64_t total_bytes = 0;
  int multiprocessors = 0;
  int major = 0, minor = 0;  // compute capability
};

// Empty where there is no device or no driver. Internal: the driver failed.
absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices();

// A backend whose operations are enqueued on one stream. Equal inputs give
// bit-equal outputs on one kind of device: no sum depends on the order in which
// blocks run. Indices are not checked on the device; the caller has. Not
// thread-safe. FailedPrecondition: no such device, or one that the kernels were
// not built for (compute capability below 8.0).
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaOptions& options);

// The stream (a cudaStream_t) of a backend that CreateCudaBackend made.
void* CudaStreamOf(const Backend& backend);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_CUDA_BACKEND_H_
