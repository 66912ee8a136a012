// Random multipliers of dropout (kernels/philox.h), a run of columns at a time.
#ifndef COMERA_KERNELS_CPU_DROPOUT_MASK_H_
#define COMERA_KERNELS_CPU_DROPOUT_MASK_H_

#include <cstdint>

#include "kernels/backend.h"

namespace comera::kernels {

// Columns per call of Fill; a multiple of 64.
inline constexpr int64_t kMaskColumns = 256;

// One dropout of one step. Copy and use from any thread.
class DropoutMask {
 public:
  explicit DropoutMask(const DropoutKey& key);

  bool active() const { return rate_ > 0; }
  // scales[i] = 0 or DropoutKeptScale(rate) for columns [column, column +
  // count) of row i of the operation. column is a multiple of 8; scales has
  // room for count rounded up to a multiple of 64.
  void Fill(int64_t i, int64_t column, int64_t count, float* scales) const {
    FillRow(Row(i), column, count, scales);
  }
  // The row of i, as Philox counts it.
  uint64_t Row(int64_t i) const {
    return static_cast<uint64_t>(first_row_ +
                                 (row_ids_ == nullptr ? i : row_ids_[i]));
  }
  // The same as Fill, for a row as Philox counts it.
  void FillRow(uint64_t row, int64_t column, int64_t count,
               float* scales) const;

 private:
  float rate_ = 0;
  float scale_ = 1;
  uint32_t threshold_ = 0;
  uint32_t site_ = 0;
  int64_t first_row_ = 0;
  const int32_t* row_ids_ = nullptr;
  StepState state_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_DROPOUT_MASK_H_
