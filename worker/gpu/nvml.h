// GPUs by way of NVML, the library of NVIDIA's driver.
#ifndef COMERA_WORKER_GPU_NVML_H_
#define COMERA_WORKER_GPU_NVML_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/gpu/gpu_driver.h"

namespace comera::worker {

// Loads NVML now: a machine without it needs none to run this program. Its
// GPUs, their names and how they are connected are read once.
//
// NotFound: no such library, i.e. no NVIDIA driver. FailedPrecondition: it is
// too old (a function is missing), or the driver is not loaded. Unavailable,
// Internal: another error of NVML, with its text.
absl::StatusOr<std::unique_ptr<GpuDriver>> LoadNvml(
    const std::string& library = "libnvidia-ml.so.1");

}  // namespace comera::worker

#endif  // COMERA_WORKER_GPU_NVML_H_
