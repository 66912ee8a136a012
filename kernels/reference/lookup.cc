// Defines lookups, bags and products of pairs of blocks, in double.
#include "kernels/reference/lookup.h"

#include <algorithm>

namespace comera::kernels::reference {
namespace {

// C-order digits of `index` in these modes.
std::vector<int64_t> Digits(int64_t index, const std::vector<int64_t>& modes) {
  std::vector<int64_t> digits(modes.size());
  for (size_t k = modes.size(); k-- > 0;) {
    digits[k] = index % modes[k];
    index /= modes[k];
  }
  return digits;
}

// v := v * core[:, middle, :] for a core of (left, middles, right).
void Absorb(const DoubleMatrix& core, int64_t middles, int64_t right,
            int64_t middle, std::vector<double>* v) {
  std::vector<double> next(right, 0.0);
  for (size_t a = 0; a < v->size(); ++a) {
    for (int64_t b = 0; b < right; ++b) {
      next[b] += (*v)[a] *
                 core[(static_cast<int64_t>(a) * middles + middle) * right + b];
    }
  }
  *v = next;
}

// Calls f(row, column, index in L, index in R, first) for every product of two
// entries that adds to the result's entry (row, column), and, first, with
// indices of -1.
template <typename F>
void ForProducts(const TtmTables& t, const PairLists& pairs, const F& f) {
  for (int64_t s = 0; s < t.right_rows; ++s) {
    for (int64_t q = pairs.start.index(s); q < pairs.start.index(s + 1); ++q) {
      const int64_t block = pairs.left.index(q), row = pairs.out.index(q);
      for (int64_t c = 0; c < t.left_outer * t.left_inner; ++c) {
        const int64_t a = c / t.left_inner, b = c % t.left_inner;
        const int64_t l = (a * t.left_rows + block) * t.left_inner + b;
        for (int64_t e = 0; e < t.right_cols; ++e) {
          const int64_t col = c * t.right_cols + e;
          f(row, col, -1, -1, true);
          for (int64_t k = 0; k < t.rank; ++k) {
            const int64_t r =
                t.right_blocks ? s * t.rank + k : k * t.right_rows + s;
            f(row, col, l * t.rank + k, r * t.right_cols + e, false);
          }
        }
      }
    }
  }
}

}  // namespace

void GatherRows(const DoubleMatrix& table, const DoubleMatrix& rows,
                DoubleMatrix* out) {
  for (int64_t j = 0; j < rows.size(); ++j) {
    for (int64_t c = 0; c < table.cols; ++c) {
      out->at(j, c) = table.at(rows.index(j), c);
    }
  }
}

void SumRows(const DoubleMatrix& table, const DoubleMatrix& rows,
             const DoubleMatrix& offsets, DoubleMatrix* out) {
  for (int64_t i = 0; i < out->rows; ++i) {
    for (int64_t c = 0; c < table.cols; ++c) {
      out->at(i, c) = 0;
      for (int64_t q = offsets.index(i); q < offsets.index(i + 1); ++q) {
        out->at(i, c) += table.at(rows.index(q), c);
      }
    }
  }
}

void ScatterAddRows(const DoubleMatrix& in, const DoubleMatrix& rows,
                    DoubleMatrix* table) {
  for (int64_t j = 0; j < rows.size(); ++j) {
    for (int64_t c = 0; c < in.cols; ++c) {
      table->at(rows.index(j), c) += in.at(j, c);
    }
  }
}

void PutRows(const DoubleMatrix& in, const DoubleMatrix& rows,
             DoubleMatrix* table) {
  for (int64_t j = 0; j < rows.size(); ++j) {
    for (int64_t c = 0; c < in.cols; ++c) {
      table->at(rows.index(j), c) = in.at(j, c);
    }
  }
}

void TtmLookup(const TtmTables& t, const DoubleMatrix& left,
               const DoubleMatrix& right, const PairLists& pairs,
               DoubleMatrix* out) {
  ForProducts(t, pairs,
              [&](int64_t row, int64_t col, int64_t l, int64_t r, bool first) {
                if (first) out->at(row, col) = 0;
                if (l >= 0) out->at(row, col) += left[l] * right[r];
              });
}

void TtmLookupBackward(const TtmTables& t, const DoubleMatrix& left,
                       const DoubleMatrix& right, const PairLists& pairs,
                       const DoubleMatrix& grad_out, DoubleMatrix* grad_left,
                       DoubleMatrix* grad_right) {
  std::fill(grad_left->values.begin(), grad_left->values.end(), 0.0);
  std::fill(grad_right->values.begin(), grad_right->values.end(), 0.0);
  ForProducts(t, pairs,
              [&](int64_t row, int64_t col, int64_t l, int64_t r, bool) {
                if (l < 0) return;
                (*grad_left)[l] += grad_out.at(row, col) * right[r];
                (*grad_right)[r] += grad_out.at(row, col) * left[l];
              });
}

DoubleMatrix DenseMatrix(const TtShape& shape,
                         const std::vector<DoubleMatrix>& cores) {
  DoubleMatrix w(shape.Rows(), shape.Cols());
  for (int64_t i = 0; i < w.rows; ++i) {
    for (int64_t j = 0; j < w.cols; ++j) {
      std::vector<int64_t> digits = Digits(i, shape.input_modes);
      for (int64_t digit : Digits(j, shape.output_modes)) {
        digits.push_back(digit);
      }
      std::vector<double> v = {1};
      for (int k = 0; k < shape.order(); ++k) {
        Absorb(cores[k], shape.Mode(k), shape.RightRank(k), digits[k], &v);
      }
      w.at(i, j) = v[0];
    }
  }
  return w;
}

DoubleMatrix DenseMatrix(const TtmShape& shape,
                         const std::vector<DoubleMatrix>& cores) {
  int64_t rows = 1, cols = 1;
  for (int k = 0; k < shape.order(); ++k) {
    rows *= shape.row_modes[k];
    cols *= shape.col_modes[k];
  }
  DoubleMatrix w(rows, cols);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const std::vector<int64_t> row = Digits(i, shape.row_modes);
      const std::vector<int64_t> col = Digits(j, shape.col_modes);
      std::vector<double> v = {1};
      for (int k = 0; k < shape.order(); ++k) {
        const int64_t n = shape.col_modes[k];
        Absorb(cores[k], shape.row_modes[k] * n, shape.RightRank(k),
               row[k] * n + col[k], &v);
      }
      w.at(i, j) = v[0];
    }
  }
  return w;
}

}  // namespace comera::kernels::reference
