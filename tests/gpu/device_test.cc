// Checks the machine: driver, runtime and libraries fit together, and device
// code of this build runs.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_status.h"
#include "tests/gpu/scale_add.h"

namespace comera::kernels {
namespace {

TEST(DeviceTest, DriverServesThisRuntime) {
  int driver = 0, runtime = 0;
  ASSERT_OK(CudaStatus(cudaDriverGetVersion(&driver), "driver"));
  ASSERT_OK(CudaStatus(cudaRuntimeGetVersion(&runtime), "runtime"));
  EXPECT_GE(driver / 1000, runtime / 1000)
      << "driver " << driver << " is older than runtime " << runtime;
}

TEST(DeviceTest, LibrariesAreThoseCompiledAgainst) {
  EXPECT_EQ(cublasLtGetVersion() / 10000, CUBLAS_VERSION / 10000);
  int nccl = 0;
  ASSERT_EQ(ncclGetVersion(&nccl), ncclSuccess);
  EXPECT_GE(nccl, 22800);
}

TEST(DeviceTest, EveryDeviceRunsAKernel) {
  int devices = 0;
  ASSERT_OK(CudaStatus(cudaGetDeviceCount(&devices), "count of devices"));
  ASSERT_GT(devices, 0);
  constexpr int kCount = 100003;
  const std::vector<float> ones(kCount, 1.0f);
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties = {};
    ASSERT_OK(CudaStatus(cudaGetDeviceProperties(&properties, device), "name"));
    SCOPED_TRACE(properties.name);
    ASSERT_GE(properties.major, 8) << "below compute capability 8.0";
    ASSERT_OK(CudaStatus(cudaSetDevice(device), "set"));
    float *x = nullptr, *y = nullptr;
    const size_t bytes = kCount * sizeof(float);
    ASSERT_OK(CudaStatus(cudaMalloc(&x, bytes), "x"));
    ASSERT_OK(CudaStatus(cudaMalloc(&y, bytes), "y"));
    for (float* to : {x, y}) {
      ASSERT_OK(CudaStatus(
          cudaMemcpy(to, ones.data(), bytes, cudaMemcpyHostToDevice), "in"));
    }
    ASSERT_OK(ScaleAdd(kCount, 2.0f, x, y, nullptr));
    std::vector<float> got(kCount);
    ASSERT_OK(CudaStatus(
        cudaMemcpy(got.data(), y, bytes, cudaMemcpyDeviceToHost), "out"));
    EXPECT_EQ(got, std::vector<float>(kCount, 3.0f));
    cudaFree(x);
    cudaFree(y);
  }
}

}  // namespace
}  // namespace comera::kernels
