// Copies host values to a backend's memory, and back.
#ifndef COMERA_TESTS_GOLDEN_DEVICE_MEMORY_H_
#define COMERA_TESTS_GOLDEN_DEVICE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace comera::golden {

// Makes the backend that a check runs on.
using BackendFactory =
    std::function<absl::StatusOr<std::unique_ptr<kernels::Backend>>()>;

// Makes a CPU backend with one thread in float32.
absl::StatusOr<std::unique_ptr<kernels::Backend>> CpuFactory();

// Owns the memory that it allocated; the backend must outlive it.
class DeviceMemory {
 public:
  explicit DeviceMemory(kernels::Backend* backend) : backend_(backend) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  absl::StatusOr<float*> Floats(const std::vector<float>& values);
  absl::StatusOr<float*> Zeros(int64_t count);
  absl::StatusOr<const int32_t*> Integers(const std::vector<int32_t>& values);
  absl::StatusOr<const kernels::StepState*> State();
  // Waits for the enqueued operations first.
  absl::StatusOr<std::vector<float>> Read(const float* from, int64_t count);

 private:
  absl::StatusOr<void*> Upload(const void* from, int64_t bytes);

  kernels::Backend* const backend_;
  std::vector<void*> memory_;
};

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_DEVICE_MEMORY_H_
