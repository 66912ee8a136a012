// Vectors of floats, as operands of the compiler's arithmetic.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_LANES_H_
#define COMERA_KERNELS_CPU_PRODUCTS_LANES_H_

namespace comera::kernels {

// A vector of kLanes floats, or one float. The compiler splits those that are
// wider than the processor's registers.
template <int kLanes>
struct Lanes {
  typedef float Type __attribute__((vector_size(kLanes * sizeof(float))));
};
template <>
struct Lanes<1> {
  typedef float Type;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_LANES_H_
