// Sums float32 and bfloat16 values over ranks.
#ifndef COMERA_TESTS_FAKES_NCCL_FAKE_SUM_H_
#define COMERA_TESTS_FAKES_NCCL_FAKE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "worker/collective/nccl_api.h"

namespace comera::collective {

// Rounds a finite float to the nearest bfloat16, ties to even.
inline uint16_t ToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float ToFloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Replaces every rank's `data` by the sum of all, added in the order of the
// ranks and rounded to the type after each addition.
inline void FakeSum(NcclApi::Type type, size_t count,
                    const std::vector<void*>& data) {
  for (size_t i = 0; i < count; ++i) {
    if (type == NcclApi::Type::kFloat32) {
      float sum = 0;
      for (void* rank : data) sum += static_cast<float*>(rank)[i];
      for (void* rank : data) static_cast<float*>(rank)[i] = sum;
      continue;
    }
    uint16_t sum = static_cast<uint16_t*>(data[0])[i];
    for (size_t r = 1; r < data.size(); ++r) {
      sum = ToBits(ToFloat(sum) + ToFloat(static_cast<uint16_t*>(data[r])[i]));
    }
    for (void* rank : data) static_cast<uint16_t*>(rank)[i] = sum;
  }
}

}  // namespace comera::collective

#endif  // COMERA_TESTS_FAKES_NCCL_FAKE_SUM_H_
