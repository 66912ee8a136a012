#include "kernels/cpu/dropout_mask.h"

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
  FillScales(MakeDropoutRow(state_.seed, state_.step, site_,
                            static_cast<uint64_t>(first_row_ + row)),
             static_cast<uint32_t>(column >> 2), (count + 3) / 4, threshold_,
             scale_, scales);
}

}  // namespace comera::kernels
