// Operands for tests of the processor's products.
#ifndef COMERA_TESTS_KERNELS_CPU_RANDOM_VALUES_H_
#define COMERA_TESTS_KERNELS_CPU_RANDOM_VALUES_H_

#include <cstdint>
#include <random>
#include <vector>

namespace comera::kernels {

// `count` standard normal numbers.
inline std::vector<float> RandomValues(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace comera::kernels

#endif  // COMERA_TESTS_KERNELS_CPU_RANDOM_VALUES_H_
