// What the losses add to their totals: [sum of losses, rows, right answers].
#ifndef COMERA_KERNELS_CUDA_DEVICE_TOTALS_H_
#define COMERA_KERNELS_CUDA_DEVICE_TOTALS_H_

#include <cuda_runtime.h>

#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"

namespace comera::kernels {

// The totals of some rows. Sums of many rows are in double.
struct LossTotals {
  double loss, rows, correct;
};

// totals += sum of partial[0 .. count), in one block and a fixed order.
static __global__ void __launch_bounds__(256)
    AddTotalsKernel(const LossTotals* partial, int count, float* totals) {
  WaitForEarlierKernels();
  LossTotals sum = {};
  for (int i = threadIdx.x; i < count; i += 256) {
    sum.loss += partial[i].loss;
    sum.rows += partial[i].rows;
    sum.correct += partial[i].correct;
  }
  sum.loss = BlockSum(sum.loss);
  sum.rows = BlockSum(sum.rows);
  sum.correct = BlockSum(sum.correct);
  if (threadIdx.x != 0) return;
  totals[0] += static_cast<float>(sum.loss);
  totals[1] += static_cast<float>(sum.rows);
  totals[2] += static_cast<float>(sum.correct);
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_TOTALS_H_
