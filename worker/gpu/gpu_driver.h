// The questions that the worker asks its GPUs' driver.
#ifndef COMERA_WORKER_GPU_GPU_DRIVER_H_
#define COMERA_WORKER_GPU_GPU_DRIVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// The state of a GPU at one moment. Fields that the GPU or its driver does not
// report are empty.
struct GpuReading {
  struct Process {
    int64_t pid = 0;
    std::optional<int64_t> memory_bytes;
  };
  // The memory in use, without the driver's own.
  int64_t used_bytes = 0;
  // The number of memory errors since the driver was loaded that could not be
  // corrected.
  std::optional<uint64_t> uncorrected_ecc;
  // In degrees Celsius; the GPU slows down at the second.
  std::optional<int> temperature, slowdown_temperature;
  // The share of the driver's last sample in which it computed, and its power
  // draw.
  std::optional<int> utilization_percent;
  std::optional<int64_t> power_milliwatts;
  // The processes of this machine that compute on it, by process id.
  std::vector<Process> processes;
};

// A critical error that the driver logged, by its Xid number.
struct GpuXid {
  int gpu = 0;
  uint64_t xid = 0;
};

// Access to the GPUs of one machine. To be used from one thread.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;

  // The GPUs in the driver's order, that of the PCI bus.
  virtual const std::vector<v1::Gpu>& gpus() const = 0;
  // `gpu` is an index of gpus(). Errors are the driver's: Unavailable,
  // Internal.
  virtual absl::StatusOr<GpuReading> Read(int gpu) = 0;
  // Returns the errors logged since the last call; does not wait.
  virtual absl::StatusOr<std::vector<GpuXid>> PopXids() = 0;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GPU_GPU_DRIVER_H_
