// What a GPU takes for an operation, by what the operation waits for.
#ifndef COMERA_KERNELS_GPU_COST_H_
#define COMERA_KERNELS_GPU_COST_H_

#include <tuple>

#include "kernels/machine_speed.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// The work of one call of an operation on a GPU.
struct GpuWork {
  enum Kind {
    kPass,         // memory, and functions of what passes by
    kProduct,      // cuBLAS multiplies
    kFused,        // the engine's own kernels on tensor cores
    kScalar,       // the engine's own products without tensor cores
    kBf16Product,  // cuBLAS, on operands that lie in memory as bfloat16
  };
  Kind kind = kPass;
  double launches = 1;
  double multiply_adds = 0;
  double bytes = 0;         // read and written
  double functions = 0;     // exp, erf, tanh, and random numbers
  double side = 0;          // the least of the three sizes of a product
  bool misaligned = false;  // an operand of a product is off 16 bytes

  bool operator<(const GpuWork& other) const { return Key() < other.Key(); }

 private:
  std::tuple<Kind, double, double, double, double, double, bool> Key() const {
    return {kind, launches, multiply_adds, bytes, functions, side, misaligned};
  }
};

// `speed` is a GPU's.
double GpuSeconds(const GpuWork& work, const MachineSpeed& speed);

// Whether every row of an operand begins and ends on 16 bytes, as the fast
// algorithms of cuBLAS need it. (In CodeBERT-LARGE's step on an H200, products
// with a size of 129 took some twelve times as long as with 136, on the same
// strides: 270 ms against 87.)
bool OnVectors(ConstMatrix m);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_GPU_COST_H_
