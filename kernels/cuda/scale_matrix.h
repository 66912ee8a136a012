// c = factor * c, for the products that have nothing to add.
#ifndef COMERA_KERNELS_CUDA_SCALE_MATRIX_H_
#define COMERA_KERNELS_CUDA_SCALE_MATRIX_H_

#include "absl/status/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// With factor 0 the old c is not read. Implemented in linear.cu.cc.
absl::Status ScaleMatrix(KernelStream stream, float factor, Matrix c);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_SCALE_MATRIX_H_
