// Numbers between float32 and bfloat16 on the host, for what travels in fewer
// bytes.
#ifndef COMERA_WORKER_COLLECTIVE_BFLOAT16_H_
#define COMERA_WORKER_COLLECTIVE_BFLOAT16_H_

#include <cstdint>
#include <cstring>

namespace comera::collective {

// The bits of the nearest bfloat16, ties to even; a NaN stays one.
inline uint16_t ToBfloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1);
  return static_cast<uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
}

inline float FromBfloat16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_BFLOAT16_H_
