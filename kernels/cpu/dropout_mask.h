// Random multipliers of dropout (kernels/philox.h), a run of columns at a time.
#ifndef COMERA_KERNELS_CPU_DROPOUT_MASK_H_
#define COMERA_KERNELS_CPU_DROPOUT_MASK_H_

#include <cstdint>

#include "kernels/backend.h"

namespace comera::kernels {

// Columns per call of Fill; a multiple of 32.
inline constexpr int64_t kMaskColumns = 256;

// One dropout of one step. Copy and use from any thread.
class DropoutMask {
 public:
  explicit DropoutMask(const DropoutKey& key);

  bool active() const { return rate_ > 0; }
  // scales[i] = 0 or 1 / (1 - rate) for columns [column, column + count) of
  // `row` (counted from key.first_row). column is a multiple of 4, count at
  // most kMaskColumns; scales has room for kMaskColumns.
  void Fill(int64_t row, int64_t column, int64_t count, float* scales) const;

 private:
  float rate_ = 0;
  float scale_ = 1;
  uint32_t threshold_ = 0;
  uint32_t site_ = 0;
  int64_t first_row_ = 0;
  StepState state_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_DROPOUT_MASK_H_
