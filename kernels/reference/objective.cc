// Defines losses, AdamW, the step of Muon and the penalty of bonds, in double.
#include "kernels/reference/objective.h"

#include <cmath>
#include <vector>

namespace comera::kernels::reference {

void SoftmaxCrossEntropy(const DoubleMatrix& logits, const DoubleMatrix& labels,
                         DoubleMatrix* grad_logits, DoubleMatrix* totals) {
  for (int64_t i = 0; i < logits.rows; ++i) {
    const int64_t label = labels.index(i);
    if (label < 0) {
      for (int64_t j = 0; grad_logits != nullptr && j < logits.cols; ++j) {
        grad_logits->at(i, j) = 0;
      }
      continue;
    }
    int64_t best = 0;
    for (int64_t j = 1; j < logits.cols; ++j) {
      if (logits.at(i, j) > logits.at(i, best)) best = j;
    }
    const double largest = logits.at(i, best);
    double sum = 0;
    for (int64_t j = 0; j < logits.cols; ++j) {
      sum += std::exp(logits.at(i, j) - largest);
    }
    (*totals)[0] += std::log(sum) + largest - logits.at(i, label);
    (*totals)[1] += 1;
    (*totals)[2] += best == label ? 1 : 0;
    if (grad_logits == nullptr) continue;
    for (int64_t j = 0; j < logits.cols; ++j) {
      grad_logits->at(i, j) =
          std::exp(logits.at(i, j) - largest) / sum - (j == label ? 1 : 0);
    }
  }
}

void SigmoidCrossEntropy(const DoubleMatrix& logits, const DoubleMatrix& labels,
                         DoubleMatrix* grad_logits, DoubleMatrix* totals) {
  for (int64_t i = 0; i < logits.rows; ++i) {
    const double x = logits[i];
    const bool clicked = labels.index(i) == 1;
    // -log sigmoid(y x) with y = 1 or -1, without overflow.
    const double margin = clicked ? x : -x;
    (*totals)[0] += margin > 0 ? std::log1p(std::exp(-margin))
                               : std::log1p(std::exp(margin)) - margin;
    (*totals)[1] += 1;
    (*totals)[2] += (x > 0) == clicked ? 1 : 0;
    if (grad_logits == nullptr) continue;
    (*grad_logits)[i] = 1 / (1 + std::exp(-x)) - (clicked ? 1 : 0);
  }
}

double SumOfSquares(const DoubleMatrix& x) {
  double sum = 0;
  for (double value : x.values) sum += value * value;
  return sum;
}

void OrthogonalStep(const OrthogonalRule& rule,
                    const std::vector<OrthogonalSegment>& segments,
                    DoubleMatrix* parameters, const DoubleMatrix& gradients,
                    DoubleMatrix* momentum, const StepState* state,
                    double squares) {
  if (state != nullptr && !std::isfinite(squares)) return;
  const double mu = rule.momentum;
  const double scale = state == nullptr ? 1 : state->learning_rate_scale;
  for (const OrthogonalSegment& s : segments) {
    const bool wide = s.rows <= s.cols;
    const int64_t k = wide ? s.rows : s.cols, n = wide ? s.cols : s.rows;
    // x (k, n) is the wide orientation.
    const auto index = [&](int64_t i, int64_t j) {
      return s.offset + (wide ? i * s.cols + j : j * s.cols + i);
    };
    std::vector<double> x(k * n), next(k * n);
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double& m = (*momentum)[index(i, j)];
        const double g = gradients[index(i, j)];
        m = mu * m + (1 - mu) * g;
        x[i * n + j] = mu * m + (1 - mu) * g;
        sum += x[i * n + j] * x[i * n + j];
      }
    }
    for (double& value : x) value /= std::sqrt(sum) + 1e-7;
    for (int iteration = 0; iteration < 5; ++iteration) {
      std::vector<double> a(k * k), p(k * k);
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          for (int64_t q = 0; q < n; ++q) {
            a[i * k + j] += x[i * n + q] * x[j * n + q];
          }
        }
      }
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          double square = 0;
          for (int64_t q = 0; q < k; ++q) square += a[i * k + q] * a[q * k + j];
          p[i * k + j] = -4.7750 * a[i * k + j] + 2.0315 * square;
        }
      }
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double value = 3.4445 * x[i * n + j];
          for (int64_t q = 0; q < k; ++q) value += p[i * k + q] * x[q * n + j];
          next[i * n + j] = value;
        }
      }
      x.swap(next);
    }
    double unit = 1;
    if (s.relative) {
      double squares_of_w = 0;
      for (int64_t e = s.offset; e < s.offset + k * n; ++e) {
        squares_of_w += (*parameters)[e] * (*parameters)[e];
      }
      unit = std::sqrt(squares_of_w / static_cast<double>(k));
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double& w = (*parameters)[index(i, j)];
        w -= s.learning_rate * scale *
             (unit * x[i * n + j] + s.weight_decay * w);
      }
    }
  }
}

void AdamW(const AdamWStep& step, const std::vector<AdamWSegment>& segments,
           DoubleMatrix* parameters, const DoubleMatrix& gradients,
           DoubleMatrix* first_moment, DoubleMatrix* second_moment,
           const StepState* state, double squares) {
  const double beta1 = step.beta1, beta2 = step.beta2;
  const double t = static_cast<double>(step.step);
  double first_correction = 1 - std::pow(beta1, t);
  double second_correction = 1 - std::pow(beta2, t);
  double rate_scale = 1, gradient_scale = step.gradient_scale;
  if (state != nullptr) {
    if (!std::isfinite(squares)) return;
    first_correction = state->first_correction;
    second_correction = state->second_correction;
    rate_scale = state->learning_rate_scale;
    const double norm = std::sqrt(squares);
    if (step.clip_norm > 0 && norm > step.clip_norm) {
      gradient_scale *= step.clip_norm / norm;
    }
  }
  for (const AdamWSegment& segment : segments) {
    for (int64_t e = 0; e < segment.size; ++e) {
      const int64_t i = segment.offset + e;
      if (segment.row_size > 0) {
        const int64_t row = i - e % segment.row_size;
        bool touched = false;
        for (int64_t c = 0; c < segment.row_size; ++c) {
          touched |= gradients[row + c] != 0;
        }
        if (!touched) continue;
      }
      const double g = gradients[i] * gradient_scale;
      if (segment.adagrad) {
        const int64_t row = i - e % segment.row_size;
        double& accumulator = (*second_moment)[row];
        if (i == row) {
          double squares = 0;
          for (int64_t c = 0; c < segment.row_size; ++c) {
            const double scaled = gradients[row + c] * gradient_scale;
            squares += scaled * scaled;
          }
          accumulator += squares / static_cast<double>(segment.row_size);
        }
        double& p = (*parameters)[i];
        p -= segment.learning_rate * rate_scale *
             (g / (std::sqrt(accumulator) + step.epsilon) +
              segment.weight_decay * p);
        continue;
      }
      double& m = (*first_moment)[i];
      double& v = (*second_moment)[i];
      double& p = (*parameters)[i];
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      const double m_hat = m / first_correction;
      const double v_hat = v / second_correction;
      p -= segment.learning_rate * rate_scale *
           (m_hat / (std::sqrt(v_hat) + step.epsilon) +
            segment.weight_decay * p);
    }
  }
}

void BondNorms(const DoubleMatrix& parameters,
               const std::vector<BondSpan>& bonds, double threshold,
               DoubleMatrix* l1, DoubleMatrix* count) {
  for (size_t i = 0; i < bonds.size(); ++i) {
    (*l1)[i] = 0;
    (*count)[i] = 0;
    for (int64_t e = 0; e < bonds[i].size; ++e) {
      const double d = parameters[bonds[i].offset + e];
      if (!(d > threshold)) continue;
      (*l1)[i] += d;
      (*count)[i] += 1;
    }
  }
}

void RelaxedSizeGradient(const std::vector<SizeBond>& bonds,
                         const DoubleMatrix& l1, const DoubleMatrix& counts,
                         double factor, DoubleMatrix* coefficient) {
  for (size_t i = 0; i < bonds.size(); ++i) {
    const SizeBond& bond = bonds[i];
    bool gone = false;
    for (int32_t b = bond.first; b < bond.last; ++b) gone |= counts[b] == 0;
    const double left = bond.left < 0 ? 1 : l1[bond.left];
    const double right = bond.right < 0 ? 1 : l1[bond.right];
    (*coefficient)[i] =
        gone ? 0 : factor * (bond.left_mode * left + bond.right_mode * right);
  }
}

void AddBondGradient(const DoubleMatrix& parameters,
                     const std::vector<BondSpan>& bonds,
                     const DoubleMatrix& coefficient, double threshold,
                     DoubleMatrix* gradients) {
  for (size_t i = 0; i < bonds.size(); ++i) {
    for (int64_t e = 0; e < bonds[i].size; ++e) {
      const int64_t at = bonds[i].offset + e;
      if (parameters[at] > threshold) (*gradients)[at] += coefficient[i];
    }
  }
}

}  // namespace comera::kernels::reference
