// What kernels need beyond CUDA C++: inline PTX, and dynamic shared memory.
//
// A build without nvcc takes the same functions from <cuda_ptx_on_host.h>, of
// the CUDA that tests run on the processor (tests/fakes/cuda).
#ifndef COMERA_KERNELS_CUDA_DEVICE_PTX_H_
#define COMERA_KERNELS_CUDA_DEVICE_PTX_H_

#include <cuda_runtime.h>

#include <cstdint>

#ifndef __CUDACC__
#include <cuda_ptx_on_host.h>
#else

namespace comera::kernels {

// The block's dynamic shared memory, 16-byte aligned.
template <typename T>
__device__ __forceinline__ T* DynamicShared() {
  extern __shared__ __align__(16) unsigned char comera_dynamic_shared[];
  return reinterpret_cast<T*>(comera_dynamic_shared);
}

// Waits until the kernel before this one on its stream has ended and its writes
// can be seen. Every kernel begins with it, in all threads, before any access
// to device memory, so all kernels before that one have ended too. A kernel
// that is launched in the ordinary way (KernelStream in launch.h) starts after
// those before it anyway.
__device__ __forceinline__ void WaitForEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  // The next kernel may be set up once every block has come here; it gets the
  // registers and shared memory that are left free.
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Lane l = 4 g + t of a warp (g = l / 4, t = l % 4) holds of the three matrices
// of a tensor-core product (PTX ISA, "Matrix fragments for mma.m16n8k8" and
// "mma.m16n8k16"):
//   sums (16, 8):        d[0..3] = (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
//   A, tf32 (16, 8):     a[0..3] = (g, t), (g+8, t), (g, t+4), (g+8, t+4)
//   B, tf32 (8, 8):      b[0..1] = (t, g), (t+4, g)
//   A, bf16 (16, 16):    a[0..3] = (g, 2t..2t+1), (g+8, 2t..), (g, 2t+8..),
//                                  (g+8, 2t+8..), two values in a word, the
//                                  lower column in the lower half
//   B, bf16 (16, 8):     b[0..1] = (2t..2t+1, g), (2t+8.., g)

// d += A B, operands with 10 bits of mantissa. All lanes of a warp call it.
__device__ __forceinline__ void MmaTf32(float (&d)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// d += A B, operands bfloat16.
__device__ __forceinline__ void MmaBf16(float (&d)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A lane's parts of the four (8, 8) quarters of a tile (16, 16) of bfloat16 in
// shared memory, two neighbours to a word: bits[0..3] begin at (g, 2t),
// (g+8, 2t), (g, 2t+8), (g+8, 2t+8) of the tile or, with kTransposed, of its
// transpose. Rows begin on 16 bytes. All lanes of a warp call it.
template <bool kTransposed>
__device__ __forceinline__ void LoadTile(const uint16_t* tile, int stride,
                                         uint32_t (&bits)[4]) {
  // A lane tells where a row of a quarter begins.
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int quarter = lane / 8, row = lane % 8;
  const int down = kTransposed ? quarter / 2 : quarter % 2;
  const int right = kTransposed ? quarter % 2 : quarter / 2;
  const unsigned at = static_cast<unsigned>(
      __cvta_generic_to_shared(tile + (row + 8 * down) * stride + 8 * right));
  if constexpr (kTransposed) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
        : "r"(at)
        : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
                 : "r"(at)
                 : "memory");
  }
}
// The quarters 0 and 2 of these alone.
template <bool kTransposed>
__device__ __forceinline__ void LoadHalfTile(const uint16_t* tile, int stride,
                                             uint32_t (&bits)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int half = lane / 8, row = lane % 8;
  const unsigned at = static_cast<unsigned>(
      __cvta_generic_to_shared(kTransposed ? tile + (row + 8 * half) * stride
                                           : tile + row * stride + 8 * half));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(bits[0]), "=r"(bits[1])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(bits[0]), "=r"(bits[1])
                 : "r"(at)
                 : "memory");
  }
}

// Rounds to 10 bits of mantissa, to nearest, ties away from zero; returns the
// bits of a float.
__device__ __forceinline__ uint32_t ToTf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// Two bfloat16, to nearest even; `low` in the lower half.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// *from if `valid`, else 0 and no access: a predicate and no branch, so that
// many loads are under way at a time. Not for memory that the kernel writes. It
// is not volatile, so that the compiler may move it; that it moves none ahead
// of WaitForEarlierKernels is checked in the compiled code
// (tests/gpu/machine_code.py).
__device__ __forceinline__ float LoadOrZero(const float* from, bool valid) {
  float x;
  asm("{\n\t.reg .pred valid;\n\tsetp.ne.s32 valid, %2, 0;\n\t"
      "mov.f32 %0, 0f00000000;\n\t@valid ld.global.nc.f32 %0, [%1];\n\t}"
      : "=f"(x)
      : "l"(from), "r"(static_cast<int>(valid)));
  return x;
}

// 2^x and 1 / x to 2^-22, in one instruction each; what is below 2^-126 counts
// as 0.
__device__ __forceinline__ float Exp2Approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float ReciprocalApproximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Copies 16 bytes from global to shared memory in the background, or zeros if
// not `valid`; both 16-byte aligned.
__device__ __forceinline__ void CopyAsync16(void* shared, const void* global,
                                            bool valid) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(global), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits for all but the newest `kPending` groups of this thread.
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace comera::kernels

#endif  // __CUDACC__
#endif  // COMERA_KERNELS_CUDA_DEVICE_PTX_H_
