// Measures what the GPU can do at best, as one JSON object: copies within
// device memory, and large products of random matrices by cuBLAS with operands
// in their own type. The kernels' figures compare with these.
//   bazel run --config=cuda //tests/bench:device_ceilings
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <vector>

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_status.h"
#include "nlohmann/json.hpp"

namespace comera::kernels {
namespace {

// The edge of the square matrices.
constexpr int kEdge = 8192;
// Far larger than the caches.
constexpr int64_t kCopyBytes = int64_t{1} << 30;
// The number of calls in one measurement.
constexpr int kRepeats = 10;
// The number of measurements, of which the best counts.
constexpr int kMeasurements = 5;

struct Product {
  const char* name;
  cudaDataType_t type;
  cublasComputeType_t compute;
};
constexpr Product kProducts[] = {
    {"fp32", CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
    {"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F},
};

// Three buffers, each for a matrix of floats, or for kCopyBytes if that is
// more.
class Ceilings {
 public:
  Ceilings() = default;
  Ceilings(const Ceilings&) = delete;
  Ceilings& operator=(const Ceilings&) = delete;
  ~Ceilings() {
    for (void* each : buffers_) cudaFree(each);
    if (cublas_ != nullptr) cublasDestroy(cublas_);
  }

  absl::Status Start() {
    RETURN_IF_CUDA_ERROR(cudaEventCreate(&begin_));
    RETURN_IF_CUDA_ERROR(cudaEventCreate(&end_));
    RETURN_IF_CUBLAS_ERROR(cublasCreate(&cublas_));
    for (void*& each : buffers_) {
      RETURN_IF_CUDA_ERROR(cudaMalloc(&each, kCopyBytes));
    }
    return absl::OkStatus();
  }

  // Returns bytes per second, read and written.
  absl::StatusOr<double> Copy() {
    ASSIGN_OR_RETURN(const double seconds, Best([this] {
                       return CudaStatus(
                           cudaMemcpyAsync(buffers_[0], buffers_[1], kCopyBytes,
                                           cudaMemcpyDeviceToDevice, nullptr),
                           "copy");
                     }));
    return 2 * static_cast<double>(kCopyBytes) / seconds;
  }

  // Returns floating-point operations per second.
  absl::StatusOr<double> Multiply(const Product& product) {
    RETURN_IF_ERROR(FillRandom(product.type));
    const float one = 1, zero = 0;
    ASSIGN_OR_RETURN(
        const double seconds, Best([&] {
          return CublasStatus(
              cublasGemmEx(cublas_, CUBLAS_OP_N, CUBLAS_OP_N, kEdge, kEdge,
                           kEdge, &one, buffers_[0], product.type, kEdge,
                           buffers_[1], product.type, kEdge, &zero, buffers_[2],
                           product.type, kEdge, product.compute,
                           CUBLAS_GEMM_DEFAULT),
              "product");
        }));
    return 2.0 * kEdge * kEdge * kEdge / seconds;
  }

 private:
  // Fills with random values, because zeros need less power and so allow a
  // higher clock.
  absl::Status FillRandom(cudaDataType_t type) {
    const int64_t count = int64_t{kEdge} * kEdge;
    uint32_t random = 1;
    // Values between 1/2 and 1 in size, of either sign, as float32 or its upper
    // half.
    const auto next = [&random] {
      random = random * 1664525u + 1013904223u;
      return (random & 0x807fffffu) | 0x3f000000u;
    };
    for (int i = 0; i < 2; ++i) {
      if (type == CUDA_R_16BF) {
        std::vector<uint16_t> values(count);
        for (uint16_t& each : values)
          each = static_cast<uint16_t>(next() >> 16);
        RETURN_IF_CUDA_ERROR(cudaMemcpy(buffers_[i], values.data(), 2 * count,
                                        cudaMemcpyHostToDevice));
      } else {
        std::vector<uint32_t> values(count);
        for (uint32_t& each : values) each = next();
        RETURN_IF_CUDA_ERROR(cudaMemcpy(buffers_[i], values.data(), 4 * count,
                                        cudaMemcpyHostToDevice));
      }
    }
    return absl::OkStatus();
  }

  // Returns the seconds of one call at best.
  absl::StatusOr<double> Best(const std::function<absl::Status()>& enqueue) {
    RETURN_IF_ERROR(enqueue());
    double best = 0;
    for (int i = 0; i < kMeasurements; ++i) {
      RETURN_IF_CUDA_ERROR(cudaEventRecord(begin_));
      for (int j = 0; j < kRepeats; ++j) RETURN_IF_ERROR(enqueue());
      RETURN_IF_CUDA_ERROR(cudaEventRecord(end_));
      RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end_));
      float milliseconds = 0;
      RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin_, end_));
      const double seconds = 1e-3 * milliseconds / kRepeats;
      best = i == 0 ? seconds : std::min(best, seconds);
    }
    return best;
  }

  cublasHandle_t cublas_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* buffers_[3] = {};
};

absl::Status Run() {
  cudaDeviceProp properties = {};
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, 0));
  nlohmann::ordered_json json = {
      {"device", properties.name},
      {"multiprocessors", properties.multiProcessorCount},
      {"memory_bytes", properties.totalGlobalMem},
      {"cache_bytes", properties.l2CacheSize},
  };
  Ceilings ceilings;
  RETURN_IF_ERROR(ceilings.Start());
  ASSIGN_OR_RETURN(const double copy, ceilings.Copy());
  json["copy_bytes_per_second"] = copy;
  for (const Product& each : kProducts) {
    ASSIGN_OR_RETURN(json["flops"][each.name], ceilings.Multiply(each));
  }
  std::cout << json.dump() << "\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::kernels

int main() {
  const absl::Status status = comera::kernels::Run();
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
