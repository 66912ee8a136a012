// The backend that a member computes on.
#ifndef COMERA_WORKER_TRAINER_PROCESS_MAKE_BACKEND_H_
#define COMERA_WORKER_TRAINER_PROCESS_MAKE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "worker/trainer/planning/calibration.h"

namespace comera::trainer {

struct BackendOptions {
  // GPU means the first that CUDA_VISIBLE_DEVICES leaves.
  v1::ResourceSpec::Device device = v1::ResourceSpec::CPU;
  v1::TrainingSpec::Precision precision = v1::TrainingSpec::FP32;
  // The threads of a CPU backend; 0: all cores.
  int threads = 0;
  // The limit of all allocations together; 0: the memory of the device.
  int64_t memory_limit_bytes = 0;
  // CudaOptions::overlap_launches of a GPU's backend.
  bool overlap_launches = false;
};

// FailedPrecondition: no such device here, or one that cannot compute with this
// precision.
absl::StatusOr<std::unique_ptr<kernels::Backend>> MakeBackend(
    const BackendOptions& options);

// The machine as the planner knows it; a GPU that is not here is "GPU".
Machine MachineOf(const BackendOptions& options);

// The device that MakeBackend uses, for people: "NVIDIA H200" or "CPU, 2
// threads".
// FailedPrecondition: no GPU.
absl::StatusOr<std::string> DeviceName(const BackendOptions& options);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_MAKE_BACKEND_H_
