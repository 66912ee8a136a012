// How inner loops reach the processor's vector units from a build that runs on
// any x86-64: they are compiled several times and chosen when the program
// starts. Code that OpenMP moves into a parallel region is not cloned, so
// parallel loops call cloned functions over ranges.
#ifndef COMERA_KERNELS_CPU_SIMD_H_
#define COMERA_KERNELS_CPU_SIMD_H_

// The choice is made before a sanitizer's runtime is up.
#if defined(__SANITIZE_ADDRESS__) || defined(COMERA_TSAN) || \
    !defined(__x86_64__)
#define COMERA_CLONES
#else
#define COMERA_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

// For what a cloned function calls: out of line it would not be cloned.
#define COMERA_INLINE inline __attribute__((always_inline))

#endif  // COMERA_KERNELS_CPU_SIMD_H_
