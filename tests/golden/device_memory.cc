// Uploads values to a backend's memory and reads them back.

#include "tests/golden/device_memory.h"

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::golden {

absl::StatusOr<std::unique_ptr<kernels::Backend>> CpuFactory() {
  return kernels::CreateCpuBackend({1, 0});
}

DeviceMemory::~DeviceMemory() {
  for (void* each : memory_) backend_->Free(each);
}

absl::StatusOr<void*> DeviceMemory::Upload(const void* from, int64_t bytes) {
  ASSIGN_OR_RETURN(void* const memory, backend_->Allocate(bytes));
  memory_.push_back(memory);
  if (from != nullptr && bytes > 0) {
    RETURN_IF_ERROR(backend_->CopyToDevice(memory, from, bytes));
  }
  return memory;
}

absl::StatusOr<float*> DeviceMemory::Floats(const std::vector<float>& values) {
  ASSIGN_OR_RETURN(void* const memory,
                   Upload(values.data(), values.size() * sizeof(float)));
  return static_cast<float*>(memory);
}

absl::StatusOr<float*> DeviceMemory::Zeros(int64_t count) {
  ASSIGN_OR_RETURN(void* const memory,
                   Upload(nullptr, count * int64_t{sizeof(float)}));
  return static_cast<float*>(memory);
}

absl::StatusOr<const int32_t*> DeviceMemory::Integers(
    const std::vector<int32_t>& values) {
  ASSIGN_OR_RETURN(void* const memory,
                   Upload(values.data(), values.size() * sizeof(int32_t)));
  return static_cast<const int32_t*>(memory);
}

absl::StatusOr<const kernels::StepState*> DeviceMemory::State() {
  const kernels::StepState state;
  ASSIGN_OR_RETURN(void* const memory, Upload(&state, sizeof(state)));
  return static_cast<const kernels::StepState*>(memory);
}

absl::StatusOr<std::vector<float>> DeviceMemory::Read(const float* from,
                                                      int64_t count) {
  std::vector<float> values(count);
  RETURN_IF_ERROR(backend_->CopyToHost(values.data(), from,
                                       count * int64_t{sizeof(float)}));
  return values;
}

}  // namespace comera::golden
