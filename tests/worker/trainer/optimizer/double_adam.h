// Adam in double, from its definition.
#ifndef COMERA_TESTS_WORKER_TRAINER_OPTIMIZER_DOUBLE_ADAM_H_
#define COMERA_TESTS_WORKER_TRAINER_OPTIMIZER_DOUBLE_ADAM_H_

#include <cmath>
#include <vector>

namespace comera::trainer {

struct DoubleAdam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  std::vector<double> m, v;
  // GaLore's published Adam: epsilon is added to sqrt(v), not to sqrt(v^).
  bool epsilon_is_raw = false;

  // The direction of step `t` (from 1): m^ / (sqrt(v^) + epsilon).
  std::vector<double> Direction(const std::vector<double>& gradient, int t) {
    m.resize(gradient.size());
    v.resize(gradient.size());
    std::vector<double> direction(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double g = gradient[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double first = m[i] / (1 - std::pow(beta1, t));
      const double correction = 1 - std::pow(beta2, t);
      direction[i] =
          epsilon_is_raw
              ? first * std::sqrt(correction) / (std::sqrt(v[i]) + epsilon)
              : first / (std::sqrt(v[i] / correction) + epsilon);
    }
    return direction;
  }
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_OPTIMIZER_DOUBLE_ADAM_H_
