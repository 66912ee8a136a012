#ifndef COMERA_COMMON_ESTIMATE_H_
#define COMERA_COMMON_ESTIMATE_H_

namespace comera {

// A figure that was measured on a sample.
struct Estimate {
  double value = 0;
  // Standard error of the value.
  double error = 0;
};

}  // namespace comera

#endif  // COMERA_COMMON_ESTIMATE_H_
