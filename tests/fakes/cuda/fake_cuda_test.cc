// The CUDA on the processor runs, orders, captures and fails as a device does.
#include "tests/fakes/cuda/fake_cuda.h"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "common/status_matchers.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/launch.h"

namespace comera {
namespace {

using fake_cuda::FiberOrder;
using kernels::Launch;
using kernels::LaunchShape;

constexpr FiberOrder kOrders[] = {FiberOrder::kForward, FiberOrder::kReverse,
                                  FiberOrder::kShuffled};

LaunchShape Shape(unsigned grid, unsigned block, int64_t shared = 0) {
  return {grid, block, shared, {}};
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, size_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  explicit DeviceArray(size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&data_, size_ * sizeof(T)), cudaSuccess);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  T* data() const { return data_; }
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size_ * sizeof(T),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

class FakeCudaTest : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda::Reset(); }
  void TearDown() override { fake_cuda::Reset(); }
};

__global__ void ReverseInShared(int* data, bool wait) {
  int* const tile = kernels::DynamicShared<int>();
  data += blockIdx.x * blockDim.x;
  tile[threadIdx.x] = data[threadIdx.x];
  if (wait) __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

std::vector<int> Reversed(bool wait) {
  std::vector<int> values(192);
  for (int i = 0; i < 192; ++i) values[i] = i;
  DeviceArray<int> device(values);
  EXPECT_OK(Launch("ReverseInShared", Shape(2, 96, 96 * 4), ReverseInShared,
                   device.data(), wait));
  return device.Read();
}

TEST_F(FakeCudaTest, ABarrierOrdersThreadsInAnyOrder) {
  for (const FiberOrder order : kOrders) {
    fake_cuda::SetFiberOrder(order, 7);
    const std::vector<int> out = Reversed(true);
    for (int i = 0; i < 192; ++i) {
      EXPECT_EQ(out[i], i / 96 * 96 + 95 - i % 96);
    }
  }
}

TEST_F(FakeCudaTest, AMissingBarrierChangesTheResult) {
  const std::vector<int> forward = Reversed(false);
  fake_cuda::SetFiberOrder(FiberOrder::kReverse);
  EXPECT_NE(Reversed(false), forward);
}

__global__ void HalfABarrier() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void HalfAShuffle(int* out) {
  if (threadIdx.x < 16) *out = __shfl_xor_sync(0xffffffffu, 1, 1);
}

// What a kernel may do that has not waited for those before it.
enum class Unwaited { kNothing, kBarrier, kShuffle, kShared };
__global__ void WaitsLate(Unwaited before) {
  if (before == Unwaited::kBarrier) __syncthreads();
  if (before == Unwaited::kShuffle) (void)__shfl_xor_sync(0xffffffffu, 1, 1);
  if (before == Unwaited::kShared) (void)kernels::DynamicShared<int>();
  kernels::WaitForEarlierKernels();
}
__global__ void OneThreadWaits() {
  if (threadIdx.x == 0) kernels::WaitForEarlierKernels();
}

TEST(FakeCudaDeathTest, OverlappingKernelsWaitForThoseBeforeThem) {
  LaunchShape shape = Shape(2, 32, 64);
  EXPECT_OK(Launch("ordinary", shape, OneThreadWaits));
  shape.stream.overlaps = true;
  EXPECT_OK(Launch("overlapping", shape, WaitsLate, Unwaited::kNothing));
  EXPECT_DEATH((void)Launch("k", shape, OneThreadWaits),
               "a thread ends and has not waited");
  EXPECT_DEATH((void)Launch("k", shape, WaitsLate, Unwaited::kBarrier),
               "comes to a barrier and has not waited");
  EXPECT_DEATH((void)Launch("k", shape, WaitsLate, Unwaited::kShuffle),
               "comes to a warp collective and has not waited");
  EXPECT_DEATH((void)Launch("k", shape, WaitsLate, Unwaited::kShared),
               "uses shared memory and has not waited");
}

TEST(FakeCudaDeathTest, DivergentBarriersAndCollectivesAreCaught) {
  EXPECT_DEATH((void)Launch("HalfABarrier", Shape(1, 64), HalfABarrier),
               "same barrier(.|\n)*block \\(0, 0, 0\\)(.|\n)*threads 40-63"
               "(.|\n)*__syncthreads of HalfABarrier(.|\n)*threads 0-39");
  EXPECT_DEATH((void)Launch("HalfAShuffle", Shape(1, 32), HalfAShuffle,
                            static_cast<int*>(nullptr)),
               "misses lanes(.|\n)*__shfl_xor_sync(.|\n)*threads 0-15");
}

__global__ void Shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  int sum = lane;
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  out += 6 * threadIdx.x;
  out[0] = sum;
  out[1] = __shfl_sync(0xffffffffu, lane, 5);
  out[2] = __shfl_up_sync(0xffffffffu, lane, 3);
  out[3] = __shfl_down_sync(0xffffffffu, lane, 3, 8);
  out[4] = static_cast<int>(__ballot_sync(0xffffffffu, lane % 2));
  out[5] = __syncthreads_count(lane < 3);
}

TEST_F(FakeCudaTest, ShufflesAndVotes) {
  for (const FiberOrder order : kOrders) {
    fake_cuda::SetFiberOrder(order, 3);
    DeviceArray<int> device(6 * 64);
    ASSERT_OK(Launch("Shuffles", Shape(1, 64), Shuffles, device.data()));
    const std::vector<int> out = device.Read();
    for (int t = 0; t < 64; ++t) {
      const int lane = t % 32;
      EXPECT_EQ(out[6 * t], 496);
      EXPECT_EQ(out[6 * t + 1], 5);
      EXPECT_EQ(out[6 * t + 2], lane < 3 ? lane : lane - 3);
      EXPECT_EQ(out[6 * t + 3], lane % 8 < 5 ? lane + 3 : lane);
      EXPECT_EQ(static_cast<unsigned>(out[6 * t + 4]), 0xaaaaaaaau);
      EXPECT_EQ(out[6 * t + 5], 6);
    }
  }
}

// a (16, 8) b (8, 8) and a (16, 16) b (16, 8), by the layouts of ptx.h.
__global__ void OneMmaTf32(const float* a, const float* b, float* d) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = threadIdx.x % 4;
  float sum[4] = {1, 1, 1, 1};
  const uint32_t x[4] = {kernels::ToTf32(a[8 * g + t]),
                         kernels::ToTf32(a[8 * (g + 8) + t]),
                         kernels::ToTf32(a[8 * g + t + 4]),
                         kernels::ToTf32(a[8 * (g + 8) + t + 4])};
  const uint32_t y[2] = {kernels::ToTf32(b[8 * t + g]),
                         kernels::ToTf32(b[8 * (t + 4) + g])};
  kernels::MmaTf32(sum, x, y);
  for (int i = 0; i < 4; ++i) {
    d[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = sum[i];
  }
}
__global__ void OneMmaBf16(const float* a, const float* b, float* d) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = threadIdx.x % 4;
  float sum[4] = {1, 1, 1, 1};
  uint32_t x[4], y[2];
  for (int i = 0; i < 4; ++i) {
    const float* const at = a + 16 * (g + 8 * (i % 2)) + 2 * t + 8 * (i / 2);
    x[i] = kernels::PackBf16(at[0], at[1]);
  }
  for (int i = 0; i < 2; ++i) {
    const float* const at = b + 8 * (2 * t + 8 * i) + g;
    y[i] = kernels::PackBf16(at[0], at[8]);
  }
  kernels::MmaBf16(sum, x, y);
  for (int i = 0; i < 4; ++i) {
    d[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = sum[i];
  }
}

std::vector<float> Wave(size_t size, double frequency) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(std::sin(frequency * (i + 1)));
  }
  return values;
}

void CheckMma(void (*kernel)(const float*, const float*, float*), int inner,
              double tolerance) {
  const std::vector<float> a = Wave(16 * inner, 0.7), b = Wave(8 * inner, 1.3);
  DeviceArray<float> device_a(a), device_b(b), device_d(128);
  ASSERT_OK(Launch("mma", Shape(1, 32), kernel, device_a.data(),
                   device_b.data(), device_d.data()));
  const std::vector<float> d = device_d.Read();
  double largest = 0;
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 1;
      for (int k = 0; k < inner; ++k) {
        sum += static_cast<double>(a[inner * i + k]) * b[8 * k + j];
      }
      largest = std::max(largest, std::abs(sum - d[8 * i + j]));
    }
  }
  EXPECT_LT(largest, tolerance);
  EXPECT_GT(largest, tolerance / 100);  // operands are rounded
}

TEST_F(FakeCudaTest, MmaTf32) { CheckMma(OneMmaTf32, 8, 3e-3); }
TEST_F(FakeCudaTest, MmaBf16) { CheckMma(OneMmaBf16, 16, 3e-2); }

TEST_F(FakeCudaTest, Roundings) {
  const float tf32_tie = 1 + std::ldexp(1.0f, -11);
  EXPECT_EQ(__uint_as_float(kernels::ToTf32(tf32_tie)),
            1 + std::ldexp(1.0f, -10));
  EXPECT_EQ(__uint_as_float(kernels::ToTf32(-tf32_tie)),
            -1 - std::ldexp(1.0f, -10));
  EXPECT_EQ(kernels::ToTf32(INFINITY), __float_as_uint(INFINITY));
  const float bf16_tie = 1 + std::ldexp(1.0f, -8);
  EXPECT_EQ(kernels::PackBf16(bf16_tie, 1 + 3 * std::ldexp(1.0f, -8)),
            0x3f82'3f80u);
}

__global__ void CopyLate(const float* from, float* out, bool wait) {
  float* const tile = kernels::DynamicShared<float>();
  const int at = 4 * static_cast<int>(threadIdx.x);
  kernels::CopyAsync16(tile + at, from + at, true);
  kernels::CommitCopies();
  kernels::CopyAsync16(tile + 128 + at, from + at, false);
  kernels::CommitCopies();
  if (wait) kernels::WaitForCopies<1>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) out[at + i] = tile[(at + i + 64) % 128];
  __syncthreads();
  kernels::WaitForCopies<0>();
  out[128 + threadIdx.x] = tile[128 + at];
}

TEST_F(FakeCudaTest, CopiesArriveAtTheWait) {
  const std::vector<float> values = Wave(128, 0.2);
  for (const bool wait : {true, false}) {
    DeviceArray<float> from(values), to(160);
    ASSERT_OK(Launch("CopyLate", Shape(1, 32, 1024), CopyLate, from.data(),
                     to.data(), wait));
    const std::vector<float> out = to.Read();
    for (int i = 0; i < 128; ++i) {
      if (wait) {
        EXPECT_EQ(out[i], values[(i + 64) % 128]);
      } else {
        EXPECT_TRUE(std::isnan(out[i]));
      }
    }
    EXPECT_EQ(out[128], 0);
  }
}

__global__ void AddOne(int* data, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] += 1;
}

TEST_F(FakeCudaTest, RefusesWhatADeviceRefuses) {
  DeviceArray<int> device(1);
  const auto launch = [&](dim3 grid, dim3 block, size_t shared) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    return cudaLaunchKernelEx(&config, AddOne, device.data(), 0);
  };
  EXPECT_EQ(launch(1, 1025, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({1, 65536}, 1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1, 48 * 1024), cudaSuccess);
  EXPECT_EQ(launch(1, 1, 48 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_OK(
      Launch("AddOne", Shape(1, 1, 227 * 1024), AddOne, device.data(), 0));
  const absl::Status refused =
      Launch("AddOne", Shape(1, 1, 227 * 1024 + 1), AddOne, device.data(), 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            "launch of AddOne: a block of threads needs 232449 bytes of shared "
            "memory, the device has 232448 for it");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // the next launch need not fail
}

TEST_F(FakeCudaTest, ADeviceHasTheSharedMemoryThatTheTestSets) {
  DeviceArray<int> device(1);
  const auto launch = [&](int64_t shared) {
    return Launch("AddOne", Shape(1, 1, shared), AddOne, device.data(), 0);
  };
  EXPECT_OK(launch(100 * 1024));
  fake_cuda::FakeDevice small;
  small.shared_bytes = 99 * 1024;
  fake_cuda::SetFakeDevice(small);
  int most = 0;
  EXPECT_EQ(
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
      cudaSuccess);
  EXPECT_EQ(most, 99 * 1024);
  EXPECT_OK(launch(99 * 1024));
  EXPECT_THAT(launch(99 * 1024 + 1),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  // What was allowed on the larger device is not any more.
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 1;
  config.dynamicSmemBytes = 100 * 1024;
  EXPECT_EQ(cudaLaunchKernelEx(&config, AddOne, device.data(), 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(FakeCudaTest, FaultsAtTheNthCall) {
  DeviceArray<int> device(1);
  fake_cuda::FailLaunch(2, cudaErrorIllegalAddress);
  EXPECT_OK(Launch("AddOne", Shape(1, 1), AddOne, device.data(), 0));
  EXPECT_FALSE(Launch("AddOne", Shape(1, 1), AddOne, device.data(), 0).ok());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);  // it stays
  fake_cuda::Reset();
  fake_cuda::FailAllocation(1);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

__global__ void TrapInOneThread() {
  if (threadIdx.x == 3) __trap();
  __syncthreads();
}

TEST_F(FakeCudaTest, ATrapIsSeenAtTheNextCall) {
  EXPECT_OK(Launch("TrapInOneThread", Shape(2, 64), TrapInOneThread));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  fake_cuda::Reset();
  EXPECT_EQ(Reversed(true)[0], 95);
}

TEST_F(FakeCudaTest, CaptureRecordsAndReplays) {
  cudaStream_t stream, other;
  cudaEvent_t fork, join;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking),
            cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming),
            cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&join, cudaEventDisableTiming),
            cudaSuccess);
  DeviceArray<int> device(std::vector<int>(100, 5)), copy(100);
  const auto record = [&](bool joins) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
              cudaSuccess);
    LaunchShape shape = Shape(1, 128);
    shape.stream = {stream};
    ASSERT_OK(Launch("AddOne", shape, AddOne, device.data(), 100));
    ASSERT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other, fork), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(copy.data(), device.data(), 400,
                              cudaMemcpyDeviceToDevice, other),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(join, other), cudaSuccess);
    if (joins) {
      ASSERT_EQ(cudaStreamWaitEvent(stream, join), cudaSuccess);
    }
  };
  record(true);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(device.Read()[99], 5);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2u);
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  }
  EXPECT_EQ(copy.Read()[99], 8);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);

  record(false);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
            cudaErrorStreamCaptureUnjoined);
  int pageable = 0;
  record(true);
  EXPECT_EQ(cudaMemcpyAsync(&pageable, device.data(), 4, cudaMemcpyDeviceToHost,
                            stream),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
            cudaErrorStreamCaptureInvalidated);
  record(true);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventDestroy(fork), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(join), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(FakeCudaTest, GemmIsColumnMajorInAllTransposes) {
  constexpr int m = 5, n = 3, k = 7;
  const std::vector<float> a = Wave(64, 0.3), b = Wave(64, 0.9);
  cublasHandle_t handle;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      for (const auto compute :
           {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
            CUBLAS_COMPUTE_32F_FAST_16BF}) {
        const std::vector<float> old = Wave(64, 0.5);
        DeviceArray<float> device_a(a), device_b(b), device_c(old);
        const float alpha = 0.5f, beta = 2;
        const int lda = (turn_a ? k : m) + 1, ldb = (turn_b ? n : k) + 1;
        ASSERT_EQ(
            cublasGemmEx_64(handle, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                            turn_b ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha,
                            device_a.data(), CUDA_R_32F, lda, device_b.data(),
                            CUDA_R_32F, ldb, &beta, device_c.data(), CUDA_R_32F,
                            m + 2, compute, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
        const std::vector<float> c = device_c.Read();
        double largest = 0;
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < n; ++j) {
            double sum = 0;
            for (int p = 0; p < k; ++p) {
              sum +=
                  static_cast<double>(a[turn_a ? i * lda + p : p * lda + i]) *
                  b[turn_b ? p * ldb + j : j * ldb + p];
            }
            const int at = j * (m + 2) + i;
            largest =
                std::max(largest, std::abs(0.5 * sum + 2.0 * old[at] - c[at]));
          }
        }
        EXPECT_EQ(c[m], old[m]);
        const double tolerance = compute == CUBLAS_COMPUTE_32F ? 2e-6
                                 : compute == CUBLAS_COMPUTE_32F_FAST_TF32
                                     ? 2e-3
                                     : 2e-2;
        EXPECT_LT(largest, tolerance);
        EXPECT_GT(largest, tolerance / 1000);
      }
    }
  }
  EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace comera
