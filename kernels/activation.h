// The functions that Backend::Activate applies to every element.
#ifndef COMERA_KERNELS_ACTIVATION_H_
#define COMERA_KERNELS_ACTIVATION_H_

namespace comera::kernels {

enum class Activation {
  kGelu,  // x/2 (1 + erf(x / sqrt 2)), the exact form
  kSilu,  // x / (1 + exp(-x))
  kTanh,
  kRelu,      // max(x, 0)
  kGeluTanh,  // x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), GPT-2's form
  kIdentity,  // x
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_ACTIVATION_H_
