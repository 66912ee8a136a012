// Formula: out = [z_0, z_i . z_j for j < i]; backward, grad_z_i = the sum over
// j of grad_ij z_j, and for z_0 also the gradient of its copy.
// Shapes: z, grad_z (rows, vectors * width); out, grad_out (rows, width +
// vectors (vectors - 1) / 2).
// Threads: a block takes a row, in shared memory if it fits; its threads take
// products, or elements of grad_z, in turn.
#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 128;
// A row of z that fits is kept in shared memory.
constexpr int64_t kMostShared = 48 * 1024;

// Products before those of vector i.
__device__ __forceinline__ int64_t Before(int64_t i) { return i * (i - 1) / 2; }

// The row of a block: z as it lies, or a copy in shared memory with an odd
// distance between vectors, so that neighbours lie in different banks.
struct Row {
  const float* z;
  int64_t distance;
};
__device__ __forceinline__ Row LoadRow(const float* z, int64_t vectors,
                                       int64_t width, bool shared) {
  if (!shared) return {z, width};
  const int64_t distance = width | 1;
  float* const copy = DynamicShared<float>();
  for (int64_t i = threadIdx.x; i < vectors * width; i += kThreads) {
    const int64_t v = i / width;
    copy[v * distance + i - v * width] = z[i];
  }
  __syncthreads();
  return {copy, distance};
}

// A block to a row, products to its threads in turn.
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(int64_t vectors, int64_t width, ConstMatrix z, Matrix out,
                  bool shared) {
  WaitForEarlierKernels();
  const Row row =
      LoadRow(z.data + blockIdx.x * z.stride, vectors, width, shared);
  float* const to = out.data + blockIdx.x * out.stride;
  // copy of z_0
  for (int64_t k = threadIdx.x; k < width; k += kThreads) to[k] = row.z[k];
  // products
  for (int64_t p = threadIdx.x; p < Before(vectors); p += kThreads) {
    int64_t i = static_cast<int64_t>(
        (1.0f + sqrtf(1.0f + 8.0f * static_cast<float>(p))) * 0.5f);
    while (Before(i) > p) --i;
    while (Before(i + 1) <= p) ++i;
    const float* const a = row.z + i * row.distance;
    const float* const b = row.z + (p - Before(i)) * row.distance;
    float sum = 0;
#pragma unroll 4
    for (int64_t k = 0; k < width; ++k) sum += a[k] * b[k];
    to[width + p] = sum;
  }
}

// A block to a row, elements of grad_z to its threads in turn.
__global__ void __launch_bounds__(kThreads)
    BackwardKernel(int64_t vectors, int64_t width, ConstMatrix z,
                   ConstMatrix grad_out, Matrix grad_z, bool shared) {
  WaitForEarlierKernels();
  const Row row =
      LoadRow(z.data + blockIdx.x * z.stride, vectors, width, shared);
  const float* const grad = grad_out.data + blockIdx.x * grad_out.stride;
  float* const to = grad_z.data + blockIdx.x * grad_z.stride;
  for (int64_t at = threadIdx.x; at < vectors * width; at += kThreads) {
    const int64_t i = at / width, k = at - i * width;
    float sum = i == 0 ? grad[k] : 0.0f;
    const float* const products = grad + width;
    for (int64_t j = 0; j < i; ++j) {
      sum += products[Before(i) + j] * row.z[j * row.distance + k];
    }
    for (int64_t j = i + 1; j < vectors; ++j) {
      sum += products[Before(j) + i] * row.z[j * row.distance + k];
    }
    to[at] = sum;
  }
}

int64_t SharedBytes(int64_t vectors, int64_t width) {
  const int64_t bytes = vectors * (width | 1) * int64_t{sizeof(float)};
  return bytes <= kMostShared ? bytes : 0;
}

}  // namespace

absl::Status CudaBackend::PairwiseInteraction(int64_t vectors, ConstMatrix z,
                                              Matrix out) {
  constexpr char kOp[] = "PairwiseInteraction";
  RETURN_IF_ERROR(CheckInteraction(kOp, vectors, z, out));
  const int64_t width = z.cols / vectors, bytes = SharedBytes(vectors, width);
  return Launch(kOp, Shape(Blocks(z.rows, 1), kThreads, bytes), ForwardKernel,
                vectors, width, z, out, bytes > 0);
}

absl::Status CudaBackend::PairwiseInteractionBackward(int64_t vectors,
                                                      ConstMatrix z,
                                                      ConstMatrix grad_out,
                                                      Matrix grad_z) {
  constexpr char kOp[] = "PairwiseInteractionBackward";
  RETURN_IF_ERROR(CheckInteraction(kOp, vectors, z, grad_out));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_z", grad_z, z.rows, z.cols));
  const int64_t width = z.cols / vectors, bytes = SharedBytes(vectors, width);
  return Launch(kOp, Shape(Blocks(z.rows, 1), kThreads, bytes), BackwardKernel,
                vectors, width, z, grad_out, grad_z, bytes > 0);
}

}  // namespace comera::kernels
