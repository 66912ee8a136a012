// Meaning of the pointwise operations of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_POINTWISE_H_
#define COMERA_KERNELS_REFERENCE_POINTWISE_H_

#include <cstdint>
#include <vector>

#include "kernels/activation.h"
#include "kernels/reference/matrix.h"

namespace comera::kernels::reference {

void Activate(Activation f, const DoubleMatrix& x, DoubleMatrix* y);
void ActivateBackward(Activation f, const DoubleMatrix& saved,
                      const DoubleMatrix& grad_y, DoubleMatrix* grad_x);

void Gated(Activation f, const DoubleMatrix& gate, const DoubleMatrix& up,
           DoubleMatrix* y);
// f is a function whose `saved` is its input.
void GatedBackward(Activation f, const DoubleMatrix& gate,
                   const DoubleMatrix& up, const DoubleMatrix& grad_y,
                   DoubleMatrix* grad_gate, DoubleMatrix* grad_up);

// The numbers behind one dropout, without a device.
struct DropoutNumbers {
  float rate = 0;
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t site = 0;
  int64_t first_row = 0;
  std::vector<int32_t> row_ids = {};  // none: rows count from first_row
};
int64_t DropoutRowOf(const DropoutNumbers& numbers, int64_t row);
// 0 or DropoutKeptScale(rate).
double DropoutScale(const DropoutNumbers& numbers, int64_t row, int64_t column);
// The multiplier in a row as Philox counts it.
double DropoutScaleAt(const DropoutNumbers& numbers, int64_t row,
                      int64_t column);
void Dropout(const DropoutNumbers& numbers, const DoubleMatrix& x,
             DoubleMatrix* y);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_POINTWISE_H_
