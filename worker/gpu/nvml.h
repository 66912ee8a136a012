// Access to GPUs through NVML, the library of NVIDIA's driver.
#ifndef COMERA_WORKER_GPU_NVML_H_
#define COMERA_WORKER_GPU_NVML_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/gpu/gpu_driver.h"

namespace comera::worker {

// Loads NVML at run time, so that a machine without it can run this program.
// The GPUs, their names and their connections are read once.
//
// NotFound: there is no such library, i.e. no NVIDIA driver.
// FailedPrecondition: the library is too old (a function is missing), or the
// driver is not loaded. Unavailable, Internal: another error of NVML, with its
// text.
absl::StatusOr<std::unique_ptr<GpuDriver>> LoadNvml(
    const std::string& library = "libnvidia-ml.so.1");

}  // namespace comera::worker

#endif  // COMERA_WORKER_GPU_NVML_H_
