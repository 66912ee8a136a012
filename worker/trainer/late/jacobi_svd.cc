// Decomposes small matrices by one-sided Jacobi rotations.
#include "worker/trainer/late/jacobi_svd.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace comera::trainer {
namespace {

constexpr int kMaxSweeps = 60;
// Columns whose cosine is below this count as orthogonal.
constexpr double kTolerance = 1e-14;

// Rotates two columns, which lie one after the other in memory.
void Rotate(double* p, double* q, size_t size, double cosine, double sine) {
  for (size_t i = 0; i < size; ++i) {
    const double x = p[i], y = q[i];
    p[i] = cosine * x - sine * y;
    q[i] = sine * x + cosine * y;
  }
}

double Dot(const double* p, const double* q, size_t size) {
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += p[i] * q[i];
  return sum;
}

// Householder reflections that make the columns of a tall matrix upper
// triangular. A column of length 0 needs none.
class ThinQr {
 public:
  // `u` holds the columns one after the other; its first rows become R.
  ThinQr(size_t rows, size_t columns, std::vector<double>* u)
      : vectors_(columns) {
    for (size_t c = 0; c < columns; ++c) {
      double* column = u->data() + c * rows;
      const double norm = std::sqrt(Dot(column + c, column + c, rows - c));
      if (norm == 0) continue;
      std::vector<double>& v = vectors_[c];
      v.assign(column + c, column + rows);
      v[0] += v[0] >= 0 ? norm : -norm;
      const double scale = std::sqrt(2 / Dot(v.data(), v.data(), v.size()));
      for (double& x : v) x *= scale;
      for (size_t d = c; d < columns; ++d) Reflect(c, u->data() + d * rows);
    }
  }

  // Brings a column of R's space, `rows` long, into the matrix's.
  void Apply(double* column) const {
    for (size_t c = vectors_.size(); c-- > 0;) Reflect(c, column);
  }

 private:
  void Reflect(size_t c, double* column) const {
    const std::vector<double>& v = vectors_[c];
    if (v.empty()) return;
    const double along = Dot(v.data(), column + c, v.size());
    for (size_t i = 0; i < v.size(); ++i) column[c + i] -= along * v[i];
  }

  std::vector<std::vector<double>> vectors_;  // each has the squared length 2
};

// Makes the columns of `u` orthogonal by rotations, which `j` takes part in.
// Returns the squared length below which a column counts as 0.
double Orthogonalise(size_t rows, size_t columns, std::vector<double>* u,
                     std::vector<double>* j) {
  double largest = 0;
  for (size_t c = 0; c < columns; ++c) {
    const double* column = u->data() + c * rows;
    largest = std::max(largest, Dot(column, column, rows));
  }
  const double negligible = largest * 1e-30;
  bool rotated = largest > 0;
  for (int sweep = 0; rotated && sweep < kMaxSweeps; ++sweep) {
    rotated = false;
    for (size_t c = 0; c + 1 < columns; ++c) {
      for (size_t d = c + 1; d < columns; ++d) {
        double* p = u->data() + c * rows;
        double* q = u->data() + d * rows;
        const double pp = Dot(p, p, rows), qq = Dot(q, q, rows);
        if (pp <= negligible || qq <= negligible) continue;
        const double pq = Dot(p, q, rows);
        if (std::abs(pq) <= kTolerance * std::sqrt(pp * qq)) continue;
        rotated = true;
        const double zeta = (qq - pp) / (2 * pq);
        const double tangent = (zeta >= 0 ? 1 : -1) /
                               (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double cosine = 1 / std::sqrt(1 + tangent * tangent);
        Rotate(p, q, rows, cosine, cosine * tangent);
        Rotate(j->data() + c * columns, j->data() + d * columns, columns,
               cosine, cosine * tangent);
      }
    }
  }
  return negligible;
}

}  // namespace

std::vector<double> JacobiSvd(size_t rows, size_t columns,
                              std::vector<double>* a,
                              std::vector<double>* rotation) {
  std::vector<double> u(rows * columns), j(columns * columns, 0);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c)
      u[c * rows + r] = (*a)[r * columns + c];
  }
  for (size_t c = 0; c < columns; ++c) j[c * columns + c] = 1;

  // Rotations of a tall matrix are rotations of its R, which is small.
  const bool tall = rows > columns;
  size_t height = rows;
  std::vector<double> full;
  std::unique_ptr<ThinQr> qr;
  if (tall) {
    qr = std::make_unique<ThinQr>(rows, columns, &u);
    height = columns;
    full.swap(u);
    u.resize(height * columns);
    for (size_t c = 0; c < columns; ++c) {
      for (size_t r = 0; r <= c; ++r) u[c * height + r] = full[c * rows + r];
    }
  }
  const double negligible = Orthogonalise(height, columns, &u, &j);

  std::vector<double> sigma(columns), column(rows);
  rotation->resize(columns * columns);
  for (size_t c = 0; c < columns; ++c) {
    const double square =
        Dot(u.data() + c * height, u.data() + c * height, height);
    sigma[c] = square > negligible ? std::sqrt(square) : 0;
    std::fill(column.begin(), column.end(), 0.0);
    for (size_t r = 0; r < height && sigma[c] > 0; ++r) {
      column[r] = u[c * height + r] / sigma[c];
    }
    if (tall) qr->Apply(column.data());
    for (size_t r = 0; r < rows; ++r) (*a)[r * columns + c] = column[r];
    for (size_t r = 0; r < columns; ++r) {
      (*rotation)[r * columns + c] = j[c * columns + r];
    }
  }
  return sigma;
}

}  // namespace comera::trainer
