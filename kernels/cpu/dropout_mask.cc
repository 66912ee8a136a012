// Draws dropout's multipliers with Philox, many columns at once.
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
    for (int round = 0; round < kDropoutRounds; ++round) {
      const uint64_t p0 = static_cast<uint64_t>(kPhiloxM0) * w0;
      const uint64_t p1 = static_cast<uint64_t>(kPhiloxM1) * w2;
      w0 = static_cast<uint32_t>(p1 >> 32) ^ w1 ^ key0;
      w1 = static_cast<uint32_t>(p1);
      w2 = static_cast<uint32_t>(p0 >> 32) ^ w3 ^ key1;
      w3 = static_cast<uint32_t>(p0);
      key0 += kPhiloxW0;
      key1 += kPhiloxW1;
    }
    scales[8 * j] = (w0 & 0xffff) >= threshold ? scale : 0.0f;
    scales[8 * j + 1] = (w0 >> 16) >= threshold ? scale : 0.0f;
    scales[8 * j + 2] = (w1 & 0xffff) >= threshold ? scale : 0.0f;
    scales[8 * j + 3] = (w1 >> 16) >= threshold ? scale : 0.0f;
    scales[8 * j + 4] = (w2 & 0xffff) >= threshold ? scale : 0.0f;
    scales[8 * j + 5] = (w2 >> 16) >= threshold ? scale : 0.0f;
    scales[8 * j + 6] = (w3 & 0xffff) >= threshold ? scale : 0.0f;
    scales[8 * j + 7] = (w3 >> 16) >= threshold ? scale : 0.0f;
  }
}

#if defined(__x86_64__)
// FillScales in 64-bit lanes, whose product needs no shuffles: eight counters
// at a time, twice as fast as what the compiler makes of the loop above. The
// upper halves of the lanes hold rests that no product reads. Writes whole
// groups of 64 multipliers.
__attribute__((target("avx512f,avx512bw"))) void FillScalesAvx512(
    DropoutRow row, uint32_t first_counter, int64_t counters,
    uint32_t threshold, float scale, float* scales) {
  __m512i key0[kDropoutRounds], key1[kDropoutRounds];
  for (uint32_t r = 0; r < kDropoutRounds; ++r) {
    key0[r] = _mm512_set1_epi64(row.key0 + r * kPhiloxW0);
    key1[r] = _mm512_set1_epi64(row.key1 + r * kPhiloxW1);
  }
  const __m512i m0 = _mm512_set1_epi64(kPhiloxM0);
  const __m512i m1 = _mm512_set1_epi64(kPhiloxM1);
  const __m512i low = _mm512_set1_epi64(0xffffffff);
  const __m512i first_half = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i second_half = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  const __m512i least = _mm512_set1_epi16(static_cast<int16_t>(threshold));
  const __m512 kept = _mm512_set1_ps(scale);
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  const auto store = [&](__m512i numbers, float* to)
      __attribute__((target("avx512f,avx512bw"))) {
    const __mmask32 keeps = _mm512_cmpge_epu16_mask(numbers, least);
    _mm512_storeu_ps(to,
                     _mm512_maskz_mov_ps(static_cast<__mmask16>(keeps), kept));
    _mm512_storeu_ps(to + 16, _mm512_maskz_mov_ps(
                                  static_cast<__mmask16>(keeps >> 16), kept));
  };
  for (int64_t j = 0; j < counters; j += 8) {
    __m512i w0 = _mm512_add_epi64(lanes, _mm512_set1_epi64(first_counter + j));
    __m512i w1 = _mm512_set1_epi64(row.c1);
    __m512i w2 = _mm512_set1_epi64(row.c2);
    __m512i w3 = _mm512_set1_epi64(row.c3);
    for (int r = 0; r < kDropoutRounds; ++r) {
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
    store(_mm512_permutex2var_epi64(w01, first_half, w23), scales + 8 * j);
    store(_mm512_permutex2var_epi64(w01, second_half, w23),
          scales + 8 * j + 32);
  }
}

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0;
  return has;
}
#endif

}  // namespace

DropoutMask::DropoutMask(const DropoutKey& key) : rate_(key.rate) {
  if (rate_ <= 0) return;
  scale_ = static_cast<float>(DropoutKeptScale(rate_));
  threshold_ = DropoutThreshold(rate_);
  site_ = key.site;
  first_row_ = key.first_row;
  row_ids_ = key.row_ids;
  state_ = *key.state;
}

void DropoutMask::FillRow(uint64_t row, int64_t column, int64_t count,
                          float* scales) const {
  const DropoutRow numbers =
      MakeDropoutRow(state_.seed, state_.step, site_, row);
  const uint32_t first_counter = static_cast<uint32_t>(column >> 3);
  const int64_t counters = (count + 7) / 8;
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
