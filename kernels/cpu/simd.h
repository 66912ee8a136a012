// How inner loops reach the processor's vector units from a build that runs on
// any x86-64: they are compiled several times and chosen when the program
// starts. Code that OpenMP moves into a parallel region is not cloned, so
// parallel loops call cloned functions over ranges.
#ifndef COMERA_KERNELS_CPU_SIMD_H_
#define COMERA_KERNELS_CPU_SIMD_H_

// The choice is made before a sanitizer's runtime is up. Clang, which the
// fuzzers need, makes the function that chooses visible to other files even
// where the cloned one is not, so that two of one name do not link.
#if defined(__SANITIZE_ADDRESS__) || defined(COMERA_TSAN) || \
    defined(__clang__) || !defined(__x86_64__)
#define COMERA_CLONES
#else
// Kernels whose register blocks differ by processor have one function per
// target attribute and choose with HasX86V3 and HasX86V4.
#define COMERA_TARGETS
#define COMERA_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

// Marks what a cloned function calls: out of line it would not be cloned.
#define COMERA_INLINE inline __attribute__((always_inline))

#if defined(COMERA_TARGETS)
namespace comera::kernels {

inline bool HasX86V3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
inline bool HasX86V4() {
  return HasX86V3() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace comera::kernels
#endif

#endif  // COMERA_KERNELS_CPU_SIMD_H_
