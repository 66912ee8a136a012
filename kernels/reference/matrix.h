// The plain type of the reference operations.
#ifndef COMERA_KERNELS_REFERENCE_MATRIX_H_
#define COMERA_KERNELS_REFERENCE_MATRIX_H_

#include <cstdint>
#include <vector>

namespace comera::kernels::reference {

// Row-major, owning, in double. A vector is a matrix of one row. Index lists
// hold whole numbers.
struct DoubleMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;

  DoubleMatrix() = default;
  DoubleMatrix(int64_t r, int64_t c) : rows(r), cols(c), values(r * c) {}
  double& at(int64_t i, int64_t j) { return values[i * cols + j]; }
  double at(int64_t i, int64_t j) const { return values[i * cols + j]; }
  double& operator[](int64_t i) { return values[i]; }
  double operator[](int64_t i) const { return values[i]; }
  int64_t size() const { return rows * cols; }
  int64_t index(int64_t i) const { return static_cast<int64_t>(values[i]); }
};

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_MATRIX_H_
