// Defines attention, cached and rank-space attention, in double.
#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>

namespace comera::kernels::reference {
namespace {

// One query of one head: its row, the rows of the keys it sees, its dropout.
struct Query {
  int64_t row = 0;
  int64_t first_key = 0, keys = 0;
  int64_t head = 0;
  int64_t dropout_row = 0;  // absolute
};

template <typename F>
void ForQueries(const AttentionShape& s, const DropoutNumbers& dropout,
                const DoubleMatrix& offsets, const F& f) {
  for (int64_t b = 0; b < s.sequences; ++b) {
    const int64_t first = offsets.index(b);
    const int64_t length = offsets.index(b + 1) - first;
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < length; ++i) {
        f(Query{first + i, first, s.causal ? i + 1 : length, h,
                DropoutRowOf(dropout, first + i) * s.heads + h});
      }
    }
  }
}

double Scale(const AttentionShape& s) {
  return s.head_width > 0 ? 1 / std::sqrt(static_cast<double>(s.head_width))
                          : 0;
}

// Sum over `count` columns of a[row_a, from_a + c] * b[row_b, from_b + c].
double Dot(const DoubleMatrix& a, int64_t row_a, int64_t from_a,
           const DoubleMatrix& b, int64_t row_b, int64_t from_b,
           int64_t count) {
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) {
    sum += a.at(row_a, from_a + c) * b.at(row_b, from_b + c);
  }
  return sum;
}

void Add(double factor, const DoubleMatrix& from, int64_t from_row,
         int64_t from_column, DoubleMatrix* to, int64_t to_row,
         int64_t to_column, int64_t count) {
  for (int64_t c = 0; c < count; ++c) {
    to->at(to_row, to_column + c) +=
        factor * from.at(from_row, from_column + c);
  }
}

// Attention with heads of any widths: head h has the columns h * width of q,
// and with its group of heads those of k and v. `shared_out`: all heads add to
// the same columns.
struct Heads {
  int64_t width = 0, value_width = 0;
  int64_t key_group = 1, value_group = 1;  // heads that share keys, values
  bool shared_out = false;
  int64_t Key(int64_t h) const { return h / key_group * width; }
  int64_t Value(int64_t h) const { return h / value_group * value_width; }
  int64_t Out(int64_t h) const { return shared_out ? 0 : h * value_width; }
};

void Forward(const AttentionShape& s, const Heads& w,
             const DropoutNumbers& dropout, const DoubleMatrix& offsets,
             const DoubleMatrix& q, const DoubleMatrix& k,
             const DoubleMatrix& v, DoubleMatrix* log_sum, DoubleMatrix* out) {
  std::fill(out->values.begin(), out->values.end(), 0.0);
  ForQueries(s, dropout, offsets, [&](const Query& u) {
    const int64_t h = u.head;
    std::vector<double> score(u.keys);
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < u.keys; ++j) {
      score[j] = Scale(s) * Dot(q, u.row, h * w.width, k, u.first_key + j,
                                w.Key(h), w.width);
      largest = std::max(largest, score[j]);
    }
    for (double value : score) sum += std::exp(value - largest);
    const double log = largest + std::log(sum);
    log_sum->at(h, u.row) = log;
    for (int64_t j = 0; j < u.keys; ++j) {
      Add(std::exp(score[j] - log) * DropoutScaleAt(dropout, u.dropout_row, j),
          v, u.first_key + j, w.Value(h), out, u.row, w.Out(h), w.value_width);
    }
  });
}

void Backward(const AttentionShape& s, const Heads& w,
              const DropoutNumbers& dropout, const DoubleMatrix& offsets,
              const DoubleMatrix& q, const DoubleMatrix& k,
              const DoubleMatrix& v, const DoubleMatrix& log_sum,
              const DoubleMatrix& grad_out, DoubleMatrix* grad_q,
              DoubleMatrix* grad_k, DoubleMatrix* grad_v) {
  for (DoubleMatrix* grad : {grad_q, grad_k, grad_v}) {
    std::fill(grad->values.begin(), grad->values.end(), 0.0);
  }
  ForQueries(s, dropout, offsets, [&](const Query& u) {
    const int64_t h = u.head;
    std::vector<double> p(u.keys), grad(u.keys);
    double dot = 0;
    for (int64_t j = 0; j < u.keys; ++j) {
      const int64_t key = u.first_key + j;
      p[j] = std::exp(
          Scale(s) * Dot(q, u.row, h * w.width, k, key, w.Key(h), w.width) -
          log_sum.at(h, u.row));
      const double drop = DropoutScaleAt(dropout, u.dropout_row, j);
      grad[j] = drop * Dot(grad_out, u.row, w.Out(h), v, key, w.Value(h),
                           w.value_width);
      dot += grad[j] * p[j];
      Add(p[j] * drop, grad_out, u.row, w.Out(h), grad_v, key, w.Value(h),
          w.value_width);
    }
    for (int64_t j = 0; j < u.keys; ++j) {
      const int64_t key = u.first_key + j;
      const double grad_score = p[j] * (grad[j] - dot) * Scale(s);
      Add(grad_score, k, key, w.Key(h), grad_q, u.row, h * w.width, w.width);
      Add(grad_score, q, u.row, h * w.width, grad_k, key, w.Key(h), w.width);
    }
  });
}

// (rows, heads * cols): what every head makes of x with its rows of f (heads *
// x.cols, cols).
DoubleMatrix Spread(const DoubleMatrix& x, const DoubleMatrix& f,
                    int64_t heads) {
  DoubleMatrix y(x.rows, heads * f.cols);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t a = 0; a < x.cols; ++a) {
        Add(x.at(i, a), f, h * x.cols + a, 0, &y, i, h * f.cols, f.cols);
      }
    }
  }
  return y;
}

// Turns the gradient of Spread's result into those of f and of x without its
// last column.
void SpreadBackward(const DoubleMatrix& x, const DoubleMatrix& f, int64_t heads,
                    const DoubleMatrix& grad_y, DoubleMatrix* grad_x,
                    DoubleMatrix* grad_f) {
  *grad_x = DoubleMatrix(x.rows, x.cols - 1);
  *grad_f = DoubleMatrix(f.rows, f.cols);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t a = 0; a < x.cols; ++a) {
        const int64_t row = h * x.cols + a;
        Add(x.at(i, a), grad_y, i, h * f.cols, grad_f, row, 0, f.cols);
        if (a == x.cols - 1) continue;
        grad_x->at(i, a) += Dot(grad_y, i, h * f.cols, f, row, 0, f.cols);
      }
    }
  }
}

Heads WidthsOf(const AttentionShape& s) {
  const int64_t group = s.heads == 0 ? 1 : s.heads / s.key_heads();
  return {s.head_width, s.head_width, group, group, false};
}
Heads WidthsOf(const RankSpaceAttentionShape& s) {
  const int64_t all = std::max<int64_t>(1, s.attention.heads);
  return {s.key_rank + 1, s.output_rank, all, 1, true};
}

}  // namespace

void Attention(const AttentionShape& s, const DropoutNumbers& dropout,
               const DoubleMatrix& offsets, const DoubleMatrix& q,
               const DoubleMatrix& k, const DoubleMatrix& v,
               DoubleMatrix* log_sum, DoubleMatrix* out) {
  Forward(s, WidthsOf(s), dropout, offsets, q, k, v, log_sum, out);
}

void AttentionBackward(const AttentionShape& s, const DropoutNumbers& dropout,
                       const DoubleMatrix& offsets, const DoubleMatrix& q,
                       const DoubleMatrix& k, const DoubleMatrix& v,
                       const DoubleMatrix& log_sum,
                       const DoubleMatrix& grad_out, DoubleMatrix* grad_q,
                       DoubleMatrix* grad_k, DoubleMatrix* grad_v) {
  Backward(s, WidthsOf(s), dropout, offsets, q, k, v, log_sum, grad_out, grad_q,
           grad_k, grad_v);
}

void CachedAttention(const CachedAttentionShape& s, const DoubleMatrix& first,
                     const DoubleMatrix& count, const DoubleMatrix& q,
                     const DoubleMatrix& keys, const DoubleMatrix& values,
                     DoubleMatrix* out) {
  std::fill(out->values.begin(), out->values.end(), 0.0);
  for (int64_t i = 0; i < q.rows; ++i) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t key_head = h / (s.heads / s.key_heads);
      const int64_t value_head = h / (s.heads / s.value_heads);
      std::vector<double> p(count.index(i));
      double sum = 0;
      for (size_t j = 0; j < p.size(); ++j) {
        p[j] = s.scale * Dot(q, i, h * s.key_width, keys,
                             first.index(i) + static_cast<int64_t>(j),
                             key_head * s.key_width, s.key_width);
      }
      const double largest = *std::max_element(p.begin(), p.end());
      for (double& value : p) sum += value = std::exp(value - largest);
      for (size_t j = 0; j < p.size(); ++j) {
        Add(p[j] / sum, values, first.index(i) + static_cast<int64_t>(j),
            value_head * s.value_width, out, i, h * s.value_width,
            s.value_width);
      }
    }
  }
}

void RankSpaceAttention(const RankSpaceAttentionShape& s,
                        const DropoutNumbers& dropout,
                        const DoubleMatrix& offsets, const RankSpaceInputs& in,
                        DoubleMatrix* log_sum, DoubleMatrix* out) {
  const int64_t heads = s.attention.heads;
  Forward(s.attention, WidthsOf(s), dropout, offsets, Spread(in.q, in.c, heads),
          in.k, Spread(in.v, in.e, heads), log_sum, out);
}

void RankSpaceAttentionBackward(const RankSpaceAttentionShape& s,
                                const DropoutNumbers& dropout,
                                const DoubleMatrix& offsets,
                                const RankSpaceInputs& in,
                                const DoubleMatrix& log_sum,
                                const DoubleMatrix& grad_out,
                                RankSpaceGradients* g) {
  const int64_t heads = s.attention.heads;
  const DoubleMatrix queries = Spread(in.q, in.c, heads);
  const DoubleMatrix values = Spread(in.v, in.e, heads);
  DoubleMatrix grad_queries(queries.rows, queries.cols);
  DoubleMatrix grad_values(values.rows, values.cols);
  DoubleMatrix grad_keys(in.k.rows, in.k.cols);
  Backward(s.attention, WidthsOf(s), dropout, offsets, queries, in.k, values,
           log_sum, grad_out, &grad_queries, &grad_keys, &grad_values);
  g->k = DoubleMatrix(in.k.rows, s.key_rank);
  for (int64_t i = 0; i < in.k.rows; ++i) {
    Add(1, grad_keys, i, 0, &g->k, i, 0, s.key_rank);
  }
  SpreadBackward(in.q, in.c, heads, grad_queries, &g->q, &g->c);
  SpreadBackward(in.v, in.e, heads, grad_values, &g->v, &g->e);
}

}  // namespace comera::kernels::reference
