// Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011) and how dropout counts with it. Shared by every backend and by the
// reference, so that a mask depends on nothing but the numbers below.
//
// Words of the counter and the key for element (row, column), where row is the
// row within the *global* batch:
//   counter = { column / 8,
//               low 32 bits of row,
//               site + (high 32 bits of row << 16),   (modulo 2^32)
//               low 32 bits of step }
//   key     = { low 32 bits of seed,
//               high 32 bits of seed ^ high 32 bits of step }
// The four words of that counter are eight numbers of 16 bits, the low half of
// a word before its high half; the element uses number column % 8 and is kept
// iff it is at least DropoutThreshold(rate). So a rate is a multiple of 2^-16,
// and kept values are scaled by the reciprocal of exactly what is kept.
// Dropout draws a number for every attention probability: it takes seven
// rounds, the fewest that pass all of BigCrush (same paper, table 2).
// Sites of a model are below 2^16.
#ifndef COMERA_KERNELS_PHILOX_H_
#define COMERA_KERNELS_PHILOX_H_

#include <cmath>
#include <cstdint>

// Kernels of CUDA draw the same numbers.
#ifdef __CUDACC__
#define COMERA_HOST_DEVICE __host__ __device__
#else
#define COMERA_HOST_DEVICE
#endif

namespace comera::kernels {

struct PhiloxWords {
  uint32_t w[4];
};

inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxM1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxW1 = 0xBB67AE85u;
inline constexpr int kDropoutRounds = 7;

template <int kRounds>
COMERA_HOST_DEVICE inline PhiloxWords Philox(PhiloxWords c, uint32_t key0,
                                             uint32_t key1) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kPhiloxM0) * c.w[0];
    const uint64_t p1 = static_cast<uint64_t>(kPhiloxM1) * c.w[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.w[1] ^ key0,
          static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.w[3] ^ key1,
          static_cast<uint32_t>(p0)}};
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
  }
  return c;
}

// What is the same for all elements of one row of one dropout.
struct DropoutRow {
  uint32_t key0, key1;
  uint32_t c1, c2, c3;
};

COMERA_HOST_DEVICE inline DropoutRow MakeDropoutRow(uint64_t seed,
                                                    uint64_t step,
                                                    uint32_t site,
                                                    uint64_t row) {
  return {static_cast<uint32_t>(seed),
          static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(step >> 32),
          static_cast<uint32_t>(row),
          site + (static_cast<uint32_t>(row >> 32) << 16),
          static_cast<uint32_t>(step)};
}

// In 65536ths, to the nearest; below 65536, so that something may be kept.
inline uint32_t DropoutThreshold(float rate) {
  return static_cast<uint32_t>(
      std::fmin(std::round(static_cast<double>(rate) * 65536), 65535));
}

// What kept values are multiplied by.
inline double DropoutKeptScale(float rate) {
  return 65536.0 / (65536 - DropoutThreshold(rate));
}

COMERA_HOST_DEVICE inline bool DropoutKeeps(const DropoutRow& row,
                                            uint32_t threshold,
                                            int64_t column) {
  const PhiloxWords words = Philox<kDropoutRounds>(
      {{static_cast<uint32_t>(column >> 3), row.c1, row.c2, row.c3}}, row.key0,
      row.key1);
  const uint32_t word = words.w[(column & 7) >> 1];
  return ((column & 1) != 0 ? word >> 16 : word & 0xffff) >= threshold;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_PHILOX_H_
