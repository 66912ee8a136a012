// Makes the backend of a trainer process, and names its device.
#include "worker/trainer/process/make_backend.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend.h"
#if COMERA_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace comera::trainer {
namespace {

#if COMERA_CUDA

kernels::CudaPrecision ToCuda(v1::TrainingSpec::Precision precision) {
  switch (precision) {
    case v1::TrainingSpec::BF16:
      return kernels::CudaPrecision::kBf16;
    case v1::TrainingSpec::TF32:
      return kernels::CudaPrecision::kTf32;
    default:
      return kernels::CudaPrecision::kFp32;
  }
}

absl::StatusOr<std::unique_ptr<kernels::Backend>> MakeGpuBackend(
    const BackendOptions& options) {
  kernels::CudaOptions cuda;
  cuda.precision = ToCuda(options.precision);
  cuda.memory_limit_bytes = options.memory_limit_bytes;
  cuda.overlap_launches = options.overlap_launches;
  return kernels::CreateCudaBackend(cuda);
}

absl::StatusOr<std::string> GpuName() {
  ASSIGN_OR_RETURN(const std::vector<kernels::CudaDevice> devices,
                   kernels::ListCudaDevices());
  if (!devices.empty()) return devices[0].name;
  return absl::FailedPreconditionError("no GPU here, or no driver");
}

#else

absl::Status NoCuda() {
  return absl::FailedPreconditionError(
      "resources.device: this comera-trainer was built without CUDA "
      "(--config=cuda), so it cannot train on a GPU");
}

absl::StatusOr<std::unique_ptr<kernels::Backend>> MakeGpuBackend(
    const BackendOptions&) {
  return NoCuda();
}

absl::StatusOr<std::string> GpuName() { return NoCuda(); }

#endif

int ThreadsOf(const BackendOptions& options) {
  return options.threads > 0
             ? options.threads
             : std::max(1,
                        static_cast<int>(std::thread::hardware_concurrency()));
}

absl::Status CheckCpuPrecision(v1::TrainingSpec::Precision precision) {
  if (precision == v1::TrainingSpec::TF32) {
    return absl::FailedPreconditionError(
        "training.precision: TF32 needs a GPU; use FP32");
  }
  // This is refused at once: oneDNN's fallback for bfloat16 is slower than
  // float32.
  if (precision == v1::TrainingSpec::BF16 && !kernels::CpuHasBf16()) {
    return absl::FailedPreconditionError(
        "training.precision: BF16 needs processors with avx512_bf16, which "
        "this one is not; use FP32");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<kernels::Backend>> MakeBackend(
    const BackendOptions& options) {
  if (options.device == v1::ResourceSpec::GPU) return MakeGpuBackend(options);
  RETURN_IF_ERROR(CheckCpuPrecision(options.precision));
  kernels::CpuOptions cpu;
  cpu.threads = options.threads;
  cpu.memory_limit_bytes = options.memory_limit_bytes;
  cpu.bf16 = options.precision == v1::TrainingSpec::BF16;
  return kernels::CreateCpuBackend(cpu);
}

Machine MachineOf(const BackendOptions& options) {
  if (options.device != v1::ResourceSpec::GPU) {
    return CpuMachine(ThreadsOf(options));
  }
  const absl::StatusOr<std::string> name = GpuName();
  kernels::GpuProducts products = kernels::GpuProducts::kFp32;
  if (options.precision == v1::TrainingSpec::TF32) {
    products = kernels::GpuProducts::kTf32;
  } else if (options.precision == v1::TrainingSpec::BF16) {
    products = kernels::GpuProducts::kBf16;
  }
  return GpuMachine(name.ok() ? *name : "GPU", products);
}

absl::StatusOr<std::string> DeviceName(const BackendOptions& options) {
  if (options.device == v1::ResourceSpec::GPU) return GpuName();
  const int threads = ThreadsOf(options);
  return absl::StrCat("CPU, ", threads, threads == 1 ? " thread" : " threads");
}

}  // namespace comera::trainer
