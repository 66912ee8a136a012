// Defines rotary position embedding, in double.
#include "kernels/reference/rotate.h"

#include <cmath>

namespace comera::kernels::reference {

void Rotate(int64_t head_width, double theta, bool inverse,
            const DoubleMatrix& positions, DoubleMatrix* x) {
  const int64_t half = head_width / 2;
  for (int64_t row = 0; row < x->rows; ++row) {
    for (int64_t head = 0; head < x->cols; head += head_width) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(positions.index(row)) *
            std::pow(theta, -2.0 * static_cast<double>(i) /
                                static_cast<double>(head_width));
        const double c = std::cos(angle);
        const double s = inverse ? -std::sin(angle) : std::sin(angle);
        const double a = x->at(row, head + i), b = x->at(row, head + i + half);
        x->at(row, head + i) = a * c - b * s;
        x->at(row, head + i + half) = b * c + a * s;
      }
    }
  }
}

}  // namespace comera::kernels::reference
