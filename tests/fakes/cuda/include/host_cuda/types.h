// CUDA C++'s qualifiers and vector types, for a compiler without CUDA.
#ifndef COMERA_TESTS_FAKES_CUDA_HOST_CUDA_TYPES_H_
#define COMERA_TESTS_FAKES_CUDA_HOST_CUDA_TYPES_H_

#include <cstddef>
#include <cstdint>

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
// Blocks run one after the other on one thread of the host, so one copy per
// thread is one per block. It keeps what the block before left there.
#define __shared__ thread_local

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
};

#define COMERA_VECTOR_TYPES(type, name, align2, align4)                       \
  struct name##1 {                                                            \
    type x;                                                                   \
  };                                                                          \
  struct __align__(align2) name##2 {                                          \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct __align__(align4) name##4 {                                          \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##1 make_##name##1(type x) { return {x}; }                       \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) {             \
    return {x, y, z, w};                                                      \
  }
COMERA_VECTOR_TYPES(char, char, 2, 4)
COMERA_VECTOR_TYPES(unsigned char, uchar, 2, 4)
COMERA_VECTOR_TYPES(short, short, 4, 8)
COMERA_VECTOR_TYPES(unsigned short, ushort, 4, 8)
COMERA_VECTOR_TYPES(int, int, 8, 16)
COMERA_VECTOR_TYPES(unsigned, uint, 8, 16)
COMERA_VECTOR_TYPES(long long, longlong, 16, 16)
COMERA_VECTOR_TYPES(unsigned long long, ulonglong, 16, 16)
COMERA_VECTOR_TYPES(float, float, 8, 16)
COMERA_VECTOR_TYPES(double, double, 16, 16)
#undef COMERA_VECTOR_TYPES

#endif  // COMERA_TESTS_FAKES_CUDA_HOST_CUDA_TYPES_H_
