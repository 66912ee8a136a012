#include "kernels/cpu/dropout_mask.h"

#if defined(__x86_64__)
// GCC 12 warns of its own undefined pass-through operands (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#include "kernels/cpu/simd.h"
#include "kernels/philox.h"

namespace comera::kernels {
namespace {

// Philox of kernels/philox.h over consecutive counters; each step of the loop
// is independent, so it vectorises.
COMERA_CLONES
void FillScales(DropoutRow row, uint32_t first_counter, int64_t counters,
                uint32_t threshold, float scale, float* __restrict scales) {
#pragma omp simd
  for (int64_t j = 0; j < counters; ++j) {
    uint32_t w0 = first_counter + static_cast<uint32_t>(j);
    uint32_t w1 = row.c1, w2 = row.c2, w3 = row.c3;
    uint32_t key0 = row.key0, key1 = row.key1;
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const uint64_t p0 = static_cast<uint64_t>(kPhiloxM0) * w0;
      const uint64_t p1 = static_cast<uint64_t>(kPhiloxM1) * w2;
      w0 = static_cast<uint32_t>(p1 >> 32) ^ w1 ^ key0;
      w1 = static_cast<uint32_t>(p1);
      w2 = static_cast<uint32_t>(p0 >> 32) ^ w3 ^ key1;
      w3 = static_cast<uint32_t>(p0);
      key0 += kPhiloxW0;
      key1 += kPhiloxW1;
    }
    scales[4 * j] = (w0 >> 8) >= threshold ? scale : 0.0f;
    scales[4 * j + 1] = (w1 >> 8) >= threshold ? scale : 0.0f;
    scales[4 * j + 2] = (w2 >> 8) >= threshold ? scale : 0.0f;
    scales[4 * j + 3] = (w3 >> 8) >= threshold ? scale : 0.0f;
  }
}

#if defined(__x86_64__)
// The same in 64-bit lanes, whose product needs no shuffles: eight counters at
// a time, twice as fast as what the compiler makes of the loop above. The upper
// halves of the lanes hold rests that no product reads. Writes whole groups of
// 32 multipliers.
__attribute__((target("avx512f"))) void FillScalesAvx512(
    DropoutRow row, uint32_t first_counter, int64_t counters,
    uint32_t threshold, float scale, float* scales) {
  __m512i key0[kPhiloxRounds], key1[kPhiloxRounds];
  for (uint32_t r = 0; r < kPhiloxRounds; ++r) {
    key0[r] = _mm512_set1_epi64(row.key0 + r * kPhiloxW0);
    key1[r] = _mm512_set1_epi64(row.key1 + r * kPhiloxW1);
  }
  const __m512i m0 = _mm512_set1_epi64(kPhiloxM0);
  const __m512i m1 = _mm512_set1_epi64(kPhiloxM1);
  const __m512i low = _mm512_set1_epi64(0xffffffff);
  const __m512i first_half = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i second_half = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  const __m512i least = _mm512_set1_epi32(static_cast<int>(threshold));
  const __m512 kept = _mm512_set1_ps(scale);
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  const auto store = [&](__m512i words, float* to)
      __attribute__((target("avx512f"))) {
    const __mmask16 keeps =
        _mm512_cmpge_epu32_mask(_mm512_srli_epi32(words, 8), least);
    _mm512_storeu_ps(to, _mm512_maskz_mov_ps(keeps, kept));
  };
  for (int64_t j = 0; j < counters; j += 8) {
    __m512i w0 = _mm512_add_epi64(lanes, _mm512_set1_epi64(first_counter + j));
    __m512i w1 = _mm512_set1_epi64(row.c1);
    __m512i w2 = _mm512_set1_epi64(row.c2);
    __m512i w3 = _mm512_set1_epi64(row.c3);
    for (int r = 0; r < kPhiloxRounds; ++r) {
      const __m512i p0 = _mm512_mul_epu32(w0, m0);
      const __m512i p1 = _mm512_mul_epu32(w2, m1);
      constexpr int kXorOfThree = 0x96;
      w0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), w1, key0[r],
                                     kXorOfThree);
      w1 = p1;
      w2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), w3, key1[r],
                                     kXorOfThree);
      w3 = p0;
    }
    const __m512i w01 =
        _mm512_or_epi64(_mm512_and_epi64(w0, low), _mm512_slli_epi64(w1, 32));
    const __m512i w23 =
        _mm512_or_epi64(_mm512_and_epi64(w2, low), _mm512_slli_epi64(w3, 32));
    store(_mm512_permutex2var_epi64(w01, first_half, w23), scales + 4 * j);
    store(_mm512_permutex2var_epi64(w01, second_half, w23),
          scales + 4 * j + 16);
  }
}

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}
#endif

}  // namespace

DropoutMask::DropoutMask(const DropoutKey& key) : rate_(key.rate) {
  if (rate_ <= 0) return;
  scale_ = 1.0f / (1.0f - rate_);
  threshold_ = DropoutThreshold(rate_);
  site_ = key.site;
  first_row_ = key.first_row;
  state_ = *key.state;
}

void DropoutMask::Fill(int64_t row, int64_t column, int64_t count,
                       float* scales) const {
  const DropoutRow numbers = MakeDropoutRow(
      state_.seed, state_.step, site_, static_cast<uint64_t>(first_row_ + row));
  const uint32_t first_counter = static_cast<uint32_t>(column >> 2);
  const int64_t counters = (count + 3) / 4;
#if defined(__x86_64__)
  if (HasAvx512()) {
    FillScalesAvx512(numbers, first_counter, counters, threshold_, scale_,
                     scales);
    return;
  }
#endif
  FillScales(numbers, first_counter, counters, threshold_, scale_, scales);
}

}  // namespace comera::kernels
