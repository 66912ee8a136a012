#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>

namespace comera::kernels::reference {
namespace {

// Row of token i of sequence b, and first column of head h.
int64_t Row(const AttentionShape& s, int64_t b, int64_t i) {
  return b * s.length + i;
}
int64_t Column(const AttentionShape& s, int64_t h) { return h * s.head_width; }

// Also the dropout's row.
int64_t Query(const AttentionShape& s, int64_t b, int64_t h, int64_t i) {
  return (b * s.heads + h) * s.length + i;
}

// Sum over the columns of head h of a[row_a] * b[row_b].
double HeadDot(const AttentionShape& s, int64_t h, const DoubleMatrix& a,
               int64_t row_a, const DoubleMatrix& b, int64_t row_b) {
  double sum = 0;
  for (int64_t c = 0; c < s.head_width; ++c) {
    sum += a.at(row_a, Column(s, h) + c) * b.at(row_b, Column(s, h) + c);
  }
  return sum;
}

// Row to of `to` += factor * row from of `from`, in the columns of head h.
void HeadAdd(const AttentionShape& s, int64_t h, double factor,
             const DoubleMatrix& from, int64_t from_row, DoubleMatrix* to,
             int64_t to_row) {
  for (int64_t c = 0; c < s.head_width; ++c) {
    to->at(to_row, Column(s, h) + c) +=
        factor * from.at(from_row, Column(s, h) + c);
  }
}

template <typename F>
void ForQueries(const AttentionShape& s, const F& f) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.length; ++i) f(b, h, i);
    }
  }
}

}  // namespace

void Attention(const AttentionShape& s, const DropoutNumbers& dropout,
               const DoubleMatrix& q, const DoubleMatrix& k,
               const DoubleMatrix& v, const DoubleMatrix& mask,
               DoubleMatrix* probabilities, DoubleMatrix* out) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_width));
  *out = DoubleMatrix(s.batch * s.length, s.heads * s.head_width);
  ForQueries(s, [&](int64_t b, int64_t h, int64_t i) {
    std::vector<double> score(s.length);
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s.length; ++j) {
      score[j] = HeadDot(s, h, q, Row(s, b, i), k, Row(s, b, j)) * scale +
                 (1 - mask[Row(s, b, j)]) * -1e9;
      largest = std::max(largest, score[j]);
    }
    for (double& value : score) sum += value = std::exp(value - largest);
    const int64_t row = Query(s, b, h, i);
    for (int64_t j = 0; j < s.length; ++j) {
      const double p = score[j] / sum;
      (*probabilities)[row * s.length + j] = p;
      HeadAdd(s, h, p * DropoutScale(dropout, row, j), v, Row(s, b, j), out,
              Row(s, b, i));
    }
  });
}

void AttentionBackward(const AttentionShape& s, const DropoutNumbers& dropout,
                       const DoubleMatrix& q, const DoubleMatrix& k,
                       const DoubleMatrix& v, const DoubleMatrix& probabilities,
                       const DoubleMatrix& grad_out, DoubleMatrix* grad_q,
                       DoubleMatrix* grad_k, DoubleMatrix* grad_v) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_width));
  for (DoubleMatrix* grad : {grad_q, grad_k, grad_v}) {
    *grad = DoubleMatrix(s.batch * s.length, s.heads * s.head_width);
  }
  ForQueries(s, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t row = Query(s, b, h, i);
    const int64_t own = Row(s, b, i);
    std::vector<double> grad(s.length);
    double dot = 0;
    for (int64_t j = 0; j < s.length; ++j) {
      const double p = probabilities[row * s.length + j];
      const double drop = DropoutScale(dropout, row, j);
      grad[j] = drop * HeadDot(s, h, grad_out, own, v, Row(s, b, j));
      dot += grad[j] * p;
      HeadAdd(s, h, p * drop, grad_out, own, grad_v, Row(s, b, j));
    }
    for (int64_t j = 0; j < s.length; ++j) {
      const double grad_score =
          probabilities[row * s.length + j] * (grad[j] - dot) * scale;
      HeadAdd(s, h, grad_score, k, Row(s, b, j), grad_q, own);
      HeadAdd(s, h, grad_score, q, own, grad_k, Row(s, b, j));
    }
  });
}

}  // namespace comera::kernels::reference
