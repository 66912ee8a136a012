// What the worker asks the driver of its GPUs.
#ifndef COMERA_WORKER_GPU_GPU_DRIVER_H_
#define COMERA_WORKER_GPU_GPU_DRIVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// State of a GPU at one moment. What it or its driver does not tell is empty.
struct GpuReading {
  struct Process {
    int64_t pid = 0;
    std::optional<int64_t> memory_bytes;
  };
  // Memory that is taken, without the driver's own.
  int64_t used_bytes = 0;
  // Errors since the driver was loaded that memory could not correct.
  std::optional<uint64_t> uncorrected_ecc;
  // Degrees Celsius; at the second the GPU slows down.
  std::optional<int> temperature, slowdown_temperature;
  // Share of the driver's last sample in which it computed; what it draws.
  std::optional<int> utilization_percent;
  std::optional<int64_t> power_milliwatts;
  // Computing on it; of this machine, in the driver's numbering.
  std::vector<Process> processes;
};

// A critical error that the driver logged, by its Xid number.
struct GpuXid {
  int gpu = 0;
  uint64_t xid = 0;
};

// Thread safety: one thread.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;

  // In the driver's order, that of the PCI bus.
  virtual const std::vector<v1::Gpu>& gpus() const = 0;
  // `gpu` is an index of gpus(). Errors are the driver's: Unavailable,
  // Internal.
  virtual absl::StatusOr<GpuReading> Read(int gpu) = 0;
  // Those since the last call; does not wait.
  virtual absl::StatusOr<std::vector<GpuXid>> PopXids() = 0;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GPU_GPU_DRIVER_H_
