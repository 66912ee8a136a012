// Defines the activations, gates and dropout, in double.
#include "kernels/reference/pointwise.h"

#include <cmath>

#include "kernels/philox.h"

namespace comera::kernels::reference {

namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The cumulative distribution of the normal distribution.
double NormalCdf(double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; }

// tanh's argument in GPT-2's form of GELU, and its derivative.
double GeluTanhArgument(double x) {
  return std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
}
double GeluTanhArgumentSlope(double x) {
  return std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x * x);
}

double Value(Activation f, double x) {
  switch (f) {
    case Activation::kGelu:
      return x * NormalCdf(x);
    case Activation::kSilu:
      return x * Sigmoid(x);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(GeluTanhArgument(x)));
    case Activation::kIdentity:
      return x;
  }
  return std::nan("");
}

double Slope(Activation f, double saved) {
  switch (f) {
    case Activation::kGelu: {
      const double density =
          std::exp(-saved * saved / 2) / std::sqrt(2 * std::acos(-1.0));
      return NormalCdf(saved) + saved * density;
    }
    case Activation::kSilu: {
      const double sigmoid = Sigmoid(saved);
      return sigmoid + saved * sigmoid * (1 - sigmoid);
    }
    case Activation::kTanh:
      return 1 - saved * saved;
    case Activation::kRelu:
      return saved > 0 ? 1 : 0;
    case Activation::kGeluTanh: {
      const double tanh = std::tanh(GeluTanhArgument(saved));
      return (1 + tanh) / 2 +
             saved / 2 * (1 - tanh * tanh) * GeluTanhArgumentSlope(saved);
    }
    case Activation::kIdentity:
      return 1;
  }
  return std::nan("");
}

}  // namespace

void Activate(Activation f, const DoubleMatrix& x, DoubleMatrix* y) {
  for (int64_t i = 0; i < x.size(); ++i) (*y)[i] = Value(f, x[i]);
}

void ActivateBackward(Activation f, const DoubleMatrix& saved,
                      const DoubleMatrix& grad_y, DoubleMatrix* grad_x) {
  for (int64_t i = 0; i < saved.size(); ++i) {
    (*grad_x)[i] = grad_y[i] * Slope(f, saved[i]);
  }
}

void Gated(Activation f, const DoubleMatrix& gate, const DoubleMatrix& up,
           DoubleMatrix* y) {
  for (int64_t i = 0; i < gate.size(); ++i) {
    (*y)[i] = Value(f, gate[i]) * up[i];
  }
}

void GatedBackward(Activation f, const DoubleMatrix& gate,
                   const DoubleMatrix& up, const DoubleMatrix& grad_y,
                   DoubleMatrix* grad_gate, DoubleMatrix* grad_up) {
  for (int64_t i = 0; i < gate.size(); ++i) {
    (*grad_gate)[i] = grad_y[i] * up[i] * Slope(f, gate[i]);
    (*grad_up)[i] = grad_y[i] * Value(f, gate[i]);
  }
}

int64_t DropoutRowOf(const DropoutNumbers& n, int64_t row) {
  return n.first_row + (n.row_ids.empty() ? row : n.row_ids[row]);
}

double DropoutScaleAt(const DropoutNumbers& n, int64_t row, int64_t column) {
  if (n.rate <= 0) return 1;
  const DropoutRow key =
      MakeDropoutRow(n.seed, n.step, n.site, static_cast<uint64_t>(row));
  return DropoutKeeps(key, DropoutThreshold(n.rate), column)
             ? DropoutKeptScale(n.rate)
             : 0;
}

double DropoutScale(const DropoutNumbers& n, int64_t row, int64_t column) {
  return DropoutScaleAt(n, DropoutRowOf(n, row), column);
}

void Dropout(const DropoutNumbers& numbers, const DoubleMatrix& x,
             DoubleMatrix* y) {
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.cols; ++j) {
      y->at(i, j) = x.at(i, j) * DropoutScale(numbers, i, j);
    }
  }
}

}  // namespace comera::kernels::reference
