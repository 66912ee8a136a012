// Computes figures of a confusion matrix and their standard errors.

#include "common/classification_figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace comera {
namespace {

// The shares of samples by true class, by predicted class, and by class of
// those where both agree.
struct Shares {
  std::vector<double> truth, predicted, agreed;
};

Shares SharesOf(const std::vector<int32_t>& truths,
                const std::vector<int32_t>& predictions, int32_t classes) {
  Shares shares;
  shares.truth.resize(classes);
  shares.predicted.resize(classes);
  shares.agreed.resize(classes);
  const double each = 1 / static_cast<double>(truths.size());
  for (size_t i = 0; i < truths.size(); ++i) {
    shares.truth[truths[i]] += each;
    shares.predicted[predictions[i]] += each;
    if (truths[i] == predictions[i]) shares.agreed[truths[i]] += each;
  }
  return shares;
}

// The delta method: `gradient` gives the derivative of the figure by the share
// of a cell of the confusion matrix, (true class, predicted class).
template <typename Gradient>
double ErrorOf(const std::vector<int32_t>& truths,
               const std::vector<int32_t>& predictions,
               const Gradient& gradient) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < truths.size(); ++i) {
    const double g = gradient(truths[i], predictions[i]);
    sum += g;
    squares += g * g;
  }
  const auto n = static_cast<double>(truths.size());
  return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)) / n);
}

}  // namespace

std::optional<Estimate> F1Score(const std::vector<int32_t>& truths,
                                const std::vector<int32_t>& predictions,
                                int32_t classes) {
  if (truths.empty()) return std::nullopt;
  const Shares shares = SharesOf(truths, predictions, classes);
  // Each class's F1 and the sum of both its shares; 0 for one that is not
  // counted.
  std::vector<double> f1(classes), both(classes);
  Estimate estimate;
  int counted = 0;
  for (int32_t k = classes == 2 ? 1 : 0; k < classes; ++k) {
    both[k] = shares.truth[k] + shares.predicted[k];
    if (both[k] == 0) continue;
    f1[k] = 2 * shares.agreed[k] / both[k];
    estimate.value += f1[k];
    ++counted;
  }
  if (counted == 0) return std::nullopt;
  estimate.value /= counted;
  const auto part = [&](int32_t k, double agreed) {
    return both[k] == 0 ? 0 : (2 * agreed - f1[k]) / both[k];
  };
  estimate.error =
      ErrorOf(truths, predictions, [&](int32_t truth, int32_t predicted) {
        // A sample on the diagonal counts in both shares of its class.
        if (truth == predicted) {
          return (part(truth, 1) + part(truth, 0)) / counted;
        }
        return (part(truth, 0) + part(predicted, 0)) / counted;
      });
  return estimate;
}

std::optional<Estimate> MatthewsCorrelation(
    const std::vector<int32_t>& truths, const std::vector<int32_t>& predictions,
    int32_t classes) {
  if (truths.empty()) return std::nullopt;
  const Shares shares = SharesOf(truths, predictions, classes);
  double covariance = 0, truth_variance = 1, predicted_variance = 1;
  for (int32_t k = 0; k < classes; ++k) {
    covariance += shares.agreed[k] - shares.truth[k] * shares.predicted[k];
    truth_variance -= shares.truth[k] * shares.truth[k];
    predicted_variance -= shares.predicted[k] * shares.predicted[k];
  }
  Estimate estimate;
  // Rounding leaves a little where one class is all there is.
  if (truth_variance < 1e-12 || predicted_variance < 1e-12) return estimate;
  const double scale = std::sqrt(truth_variance * predicted_variance);
  estimate.value = std::clamp(covariance / scale, -1.0, 1.0);
  estimate.error =
      ErrorOf(truths, predictions, [&](int32_t truth, int32_t predicted) {
        const double by_covariance = (truth == predicted ? 1.0 : 0.0) -
                                     shares.truth[predicted] -
                                     shares.predicted[truth];
        return by_covariance / scale +
               estimate.value *
                   (shares.predicted[predicted] / predicted_variance +
                    shares.truth[truth] / truth_variance);
      });
  return estimate;
}

}  // namespace comera
