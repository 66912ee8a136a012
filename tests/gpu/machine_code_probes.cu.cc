// Kernels that hold the instruction they are named after, by which
// machine_code.py proves that it knows how instructions are encoded. They are
// compiled and never run. None but ProbeACQBULK waits for earlier kernels.
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/ptx.h"

namespace comera::kernels {

__global__ void ProbeHMMA(const uint32_t* x, float* y) {
  const uint32_t a[4] = {x[0], x[1], x[2], x[3]}, b[2] = {x[4], x[5]};
  float d[4] = {};
  MmaBf16(d, a, b);
  y[0] = d[0];
}

__global__ void ProbeLDSM(const uint16_t* x, uint32_t* y) {
  __shared__ __align__(16) uint16_t tile[16 * 16];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  uint32_t bits[4];
  LoadTile<false>(tile, 16, bits);
  y[threadIdx.x] = bits[0] + bits[1] + bits[2] + bits[3];
}

__global__ void ProbeLDS(float* x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void ProbeFFMA(float* x) { x[0] = fmaf(x[1], x[2], x[3]); }

__global__ void ProbeLDG(float* x) { x[0] = x[1] + 1.0f; }

__global__ void ProbeSTG(float* x) { x[threadIdx.x] = 1.0f; }

__global__ void ProbeLDGSTS(const float* x, float* y) {
  __shared__ float4 tile[64];
  CopyAsync16(tile + threadIdx.x, x + 4 * threadIdx.x, true);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  y[threadIdx.x] = tile[63 - threadIdx.x].x;
}

// The compiler does not know in which memory the address lies.
__global__ void ProbeLD(float* x, bool shared) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const float* const from = shared ? tile : x;
  x[threadIdx.x] = from[63 - threadIdx.x];
}

__global__ void ProbeST(float* x, bool shared) {
  __shared__ float tile[64];
  float* const to = shared ? tile : x;
  to[threadIdx.x] = 1.0f;
  __syncthreads();
  x[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void ProbeATOMG(int* x) { x[1] = atomicAdd(x, 1); }

__global__ void ProbeRED(int* x) { atomicAdd(x + threadIdx.x, 3); }

__global__ void ProbeBRA(float* x, int count) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) x[i] = x[i + 1];
}

__global__ void ProbeEXIT(float* x) {
  if (x[0] != 0) return;
  x[1] = 1.0f;
}

__device__ __noinline__ float Called(float x) { return x * x + 1.0f; }
__global__ void ProbeCALL(float* x) { x[0] = Called(Called(x[1])); }

__global__ void ProbeACQBULK(float* x) {
  WaitForEarlierKernels();
  x[0] = 1.0f;
}

}  // namespace comera::kernels
