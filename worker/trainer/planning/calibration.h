// The speed of a machine, as the contraction planner knows it.
#ifndef COMERA_WORKER_TRAINER_PLANNING_CALIBRATION_H_
#define COMERA_WORKER_TRAINER_PLANNING_CALIBRATION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/machine_speed.h"

namespace comera::trainer {

// The processor or GPU that one member computes on.
struct Machine {
  std::string name;                // measured numbers hold for no other
  kernels::MachineSpeed defaults;  // where nothing was measured
  bool gpu = false;
};
// The processor's model name and the number of threads.
Machine CpuMachine(int threads);
// The GPU's name and how it takes products.
Machine GpuMachine(const std::string& device, kernels::GpuProducts products);

// Times a few operations on `backend`, which is this machine's; takes seconds.
// Noise makes things slower, never faster, so the best of several repetitions
// counts.
absl::StatusOr<kernels::MachineSpeed> MeasureMachine(kernels::Backend* backend,
                                                     const Machine& machine);

// Writes one machine's numbers as JSON, and reads them back. InvalidArgument:
// malformed, another
// machine, numbers that no machine has.
std::string CalibrationJson(const std::string& machine,
                            const kernels::MachineSpeed& speed);
absl::StatusOr<kernels::MachineSpeed> ParseCalibration(
    const std::string& json, const std::string& machine);

// The file of one machine below the cache folder.
std::string CalibrationPath(const std::string& cache_dir,
                            const std::string& machine);
// Writes that file atomically: a reader sees the old or the new numbers.
absl::Status SaveCalibration(const std::string& cache_dir,
                             const std::string& machine,
                             const kernels::MachineSpeed& speed);
// The measured numbers of this machine, or its defaults; then *why says what is
// wrong with the file, if there is one.
kernels::MachineSpeed LoadCalibration(const std::string& cache_dir,
                                      const Machine& machine, std::string* why);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PLANNING_CALIBRATION_H_
