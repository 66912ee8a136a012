// Balanced factors of a layer's inputs and outputs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

std::vector<int64_t> DescendingDivisors(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    divisors.push_back(i);
    if (i * i != n) divisors.push_back(n / i);
  }
  std::sort(divisors.begin(), divisors.end(), std::greater<int64_t>());
  return divisors;
}

// Finds the exact factorisation with the smallest sum: a core's size grows
// with its mode. Modes come out descending.
class ModeSearch {
 public:
  explicit ModeSearch(int64_t n) : divisors_(DescendingDivisors(n)) {}

  // Splits n into `count` modes, none above divisors_[first].
  void Run(int64_t n, int count, size_t first, int64_t sum) {
    if (sum >= best_sum_) return;
    if (count == 0) {
      if (n != 1) return;
      best_sum_ = sum;
      best_ = current_;
      return;
    }
    for (size_t i = first; i < divisors_.size(); ++i) {
      const int64_t mode = divisors_[i];
      // Descending: the first mode is at least the count-th root of what is
      // left.
      if (std::pow(static_cast<double>(mode), count) <
          static_cast<double>(n) * (1 - 1e-9)) {
        break;
      }
      if (n % mode != 0) continue;
      current_.push_back(mode);
      Run(n / mode, count - 1, i, sum + mode);
      current_.pop_back();
    }
  }
  const std::vector<int64_t>& best() const { return best_; }

 private:
  std::vector<int64_t> divisors_;
  std::vector<int64_t> current_;
  std::vector<int64_t> best_;
  int64_t best_sum_ = INT64_MAX;
};

// Starts at the rounded-down root everywhere and raises one mode after the
// other until the product reaches n.
std::vector<int64_t> ModesAtLeast(int64_t n, int count) {
  const double root = std::pow(static_cast<double>(n), 1.0 / count);
  std::vector<int64_t> modes(
      count, std::max<int64_t>(1, static_cast<int64_t>(root + 1e-9)));
  const auto product = [&] {
    int64_t p = 1;
    for (int64_t mode : modes) p *= mode;
    return p;
  };
  for (int i = 0; product() < n; i = (i + 1) % count) ++modes[i];
  return modes;
}

// Whether these are modes that some version chose for the layer.
bool AreAutomatic(const FactorisableLayer& layer, const Factorisation& f) {
  const auto count = static_cast<int>(f.input_modes.size());
  std::vector<int64_t> outputs =
      AutoModes(layer.outputs, count, layer.layer_class == "output");
  std::reverse(outputs.begin(), outputs.end());
  return f.input_modes == AutoModes(layer.inputs, count, false) &&
         f.output_modes == outputs;
}

}  // namespace

std::optional<Factorisation> WithEarlierModes(
    const ModelConfig& config, const std::string& layer_key,
    const std::vector<int64_t>& ranks) {
  const size_t cores = ranks.size() + 1;
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    if (layer.key != layer_key) continue;
    Factorisation f = config.layers_by_name.at(layer_key);
    // Both sides have equally many automatic modes, three at most.
    if (layer.embedding || cores % 2 != 0 || cores > 6 ||
        !AreAutomatic(layer, f)) {
      return std::nullopt;
    }
    const auto count = static_cast<int>(cores / 2);
    f.input_modes = AutoModes(layer.inputs, count, false);
    f.output_modes =
        AutoModes(layer.outputs, count, layer.layer_class == "output");
    std::reverse(f.output_modes.begin(), f.output_modes.end());
    f.ranks = ranks;
    return f;
  }
  return std::nullopt;
}

std::vector<int64_t> AutoModes(int64_t n, int count, bool may_exceed) {
  if (n < 1 || count < 1) return {};
  if (may_exceed) return ModesAtLeast(n, count);
  ModeSearch search(n);
  search.Run(n, count, 0, 0);
  return search.best();
}

}  // namespace comera::trainer
