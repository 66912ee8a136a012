// c = a b for a with many rows and b with few columns: the first product of a
// tensor-train layer, which reads the activations and writes next to nothing.
#ifndef COMERA_KERNELS_CUDA_TALL_PRODUCT_H_
#define COMERA_KERNELS_CUDA_TALL_PRODUCT_H_

#include "absl/status/status.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Whether TallProduct takes these operands on `device`.
bool IsTallProduct(CudaPrecision precision, int device, ConstMatrix a,
                   ConstMatrix b);

absl::Status TallProduct(KernelStream stream, CudaPrecision precision,
                         ConstMatrix a, ConstMatrix b, Matrix c);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_TALL_PRODUCT_H_
