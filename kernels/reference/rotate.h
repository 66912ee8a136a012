// Meaning of Rotate of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_ROTATE_H_
#define COMERA_KERNELS_REFERENCE_ROTATE_H_

#include <cstdint>

#include "kernels/reference/matrix.h"

namespace comera::kernels::reference {

// positions: whole numbers (1, rows of x).
void Rotate(int64_t head_width, double theta, bool inverse,
            const DoubleMatrix& positions, DoubleMatrix* x);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_ROTATE_H_
