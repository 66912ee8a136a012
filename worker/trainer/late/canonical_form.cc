// Brings tensor-train layers into their canonical form.
#include "worker/trainer/late/canonical_form.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "worker/trainer/late/jacobi_svd.h"

namespace comera::trainer {
namespace {

using Doubles = std::vector<double>;

// Singular values below this share of the largest are rounding.
constexpr double kNegligible = 1e-7;
// The least weight of a slice in its core's second moment: a step that is far
// too long for a slice does more harm than one that is too short.
constexpr double kLeastWeight = 0.1;

// (left, mode, right), row-major.
struct Core {
  size_t left = 0, mode = 0, right = 0;
  Doubles values;
  double RootMeanSquare() const {
    double sum = 0;
    for (double v : values) sum += v * v;
    return values.empty() ? 0 : std::sqrt(sum / values.size());
  }
};

// H_i = G_i D_i.
std::vector<Core> Folded(const ParameterLayout& layout,
                         const TensorisedLayer& layer,
                         const float* parameters) {
  std::vector<Core> cores;
  for (size_t i = 0; i < layer.cores.size(); ++i) {
    const Parameter& p = layout[layer.cores[i]];
    Core core;
    core.left = static_cast<size_t>(layer.ranks[i]);
    core.right = static_cast<size_t>(layer.ranks[i + 1]);
    core.mode = static_cast<size_t>(p.size) / (core.left * core.right);
    core.values.assign(parameters + p.offset, parameters + p.offset + p.size);
    if (i < layer.bonds.size()) {
      const float* d = parameters + layout[layer.bonds[i]].offset;
      for (size_t e = 0; e < core.values.size(); ++e) {
        core.values[e] *= d[e % core.right];
      }
    }
    cores.push_back(std::move(core));
  }
  return cores;
}

// Every core but the first gets orthonormal rows (left index), or rows of 0;
// the first takes over what is left.
void OrthogonaliseFromTheRight(std::vector<Core>& cores) {
  for (size_t i = cores.size(); i-- > 1;) {
    Core& core = cores[i];
    const size_t columns = core.mode * core.right;
    // Rows as columns: core = J S V^T.
    Doubles transposed(core.values.size());
    for (size_t a = 0; a < core.left; ++a) {
      for (size_t c = 0; c < columns; ++c) {
        transposed[c * core.left + a] = core.values[a * columns + c];
      }
    }
    Doubles rotation;
    const Doubles sigma = JacobiSvd(columns, core.left, &transposed, &rotation);
    for (size_t a = 0; a < core.left; ++a) {
      for (size_t c = 0; c < columns; ++c) {
        core.values[a * columns + c] = transposed[c * core.left + a];
      }
    }
    // The neighbour takes J S.
    Core& before = cores[i - 1];
    const size_t rows = before.left * before.mode;
    Doubles product(before.values.size());
    for (size_t r = 0; r < rows; ++r) {
      for (size_t b = 0; b < core.left; ++b) {
        double sum = 0;
        for (size_t a = 0; a < core.left; ++a) {
          sum += before.values[r * core.left + a] * rotation[a * core.left + b];
        }
        product[r * core.left + b] = sum * sigma[b];
      }
    }
    before.values = std::move(product);
  }
}

// Finds the singular values S_i of every bond from there; core i becomes
// S_{i-1}^-1/2 U_i S_i^1/2.
std::vector<Doubles> ShareSingularValues(std::vector<Core>& cores) {
  std::vector<Doubles> all;
  Doubles left_sigma = {1};
  for (size_t i = 0; i < cores.size(); ++i) {
    Core& core = cores[i];
    const size_t rows = core.left * core.mode;
    Doubles sigma = {1};
    if (i + 1 < cores.size()) {
      Doubles rotation;
      sigma = JacobiSvd(rows, core.right, &core.values, &rotation);
      const double least =
          kNegligible * *std::max_element(sigma.begin(), sigma.end());
      for (double& s : sigma) s = s > least ? s : 0;
      // The next core takes S J^T.
      Core& next = cores[i + 1];
      const size_t columns = next.mode * next.right;
      Doubles product(next.values.size());
      for (size_t b = 0; b < core.right; ++b) {
        for (size_t a = 0; a < core.right; ++a) {
          const double factor = sigma[b] * rotation[a * core.right + b];
          for (size_t c = 0; c < columns; ++c) {
            product[b * columns + c] += factor * next.values[a * columns + c];
          }
        }
      }
      next.values = std::move(product);
      all.push_back(sigma);
    }
    for (size_t e = 0; e < core.values.size(); ++e) {
      const double left = left_sigma[e / (core.mode * core.right)];
      const double right = sigma[e % core.right];
      core.values[e] *= left > 0 ? std::sqrt(right / left) : 0;
    }
    left_sigma = sigma;
  }
  return all;
}

// The positive n-th root, by Newton's method.
double Root(double a, size_t n) {
  if (!(a > 0) || !std::isfinite(a)) return 1;
  double x = std::max(a, 1.0);
  for (int i = 0; i < 2000; ++i) {
    double power = 1;
    for (size_t k = 1; k < n; ++k) power *= x;
    const double next = ((n - 1) * x + a / power) / n;
    if (!(next < x)) break;
    x = next;
  }
  return x;
}

// Scales the cores by factors whose product is 1 so that the ratio of their
// root mean squares to `before` is the same for all.
void Balance(const std::vector<double>& before, std::vector<Core>& cores) {
  Doubles factors;
  double product = 1;
  for (size_t i = 0; i < cores.size(); ++i) {
    const double now = cores[i].RootMeanSquare();
    factors.push_back(now > 0 && before[i] > 0 ? before[i] / now : 1);
    product *= factors.back();
  }
  const double root = Root(product, cores.size());
  double rest = 1;
  for (size_t i = 0; i < cores.size(); ++i) {
    const double factor = i + 1 < cores.size() ? factors[i] / root : 1 / rest;
    rest *= factor;
    for (double& v : cores[i].values) v *= factor;
  }
}

// The singular values relative to their mean, and not below kLeastWeight.
Doubles Weights(const Doubles& sigma) {
  double mean = 0;
  for (double s : sigma) mean += s / sigma.size();
  Doubles weights;
  for (double s : sigma) {
    weights.push_back(mean > 0 ? std::max(s / mean, kLeastWeight) : 1);
  }
  return weights;
}

// The mean over a core of `size` entries of the second moment of the gradient
// by H = G D, D having `right` entries.
double MeanSecondMoment(size_t size, size_t right, const float* v,
                        const float* d) {
  double sum = 0;
  for (size_t e = 0; e < size; ++e) {
    const double scale = d == nullptr ? 1 : d[e % right];
    sum += v[e] / (scale * scale);
  }
  return size == 0 ? 0 : sum / size;
}

// The cores [first, last) of a layer, which the bonds between them join to a
// train of its own. The outer bonds of the train keep their basis: their
// indices count as part of the first and of the last core's mode.
struct Train {
  size_t first, last;
};

std::vector<Train> TrainsOf(const TensorisedLayer& layer) {
  if (layer.nonlinear_bond < 0) return {{0, layer.cores.size()}};
  const size_t split = static_cast<size_t>(layer.nonlinear_bond) + 1;
  return {{0, split}, {split, layer.cores.size()}};
}

void OpenEnds(std::vector<Core>& train) {
  Core& front = train.front();
  front.mode *= front.left;
  front.left = 1;
  Core& back = train.back();
  back.mode *= back.right;
  back.right = 1;
}

// Writes a train whose cores had the root mean squares `before`. `weights`: of
// the slices on each bond, the outer ones included.
void WriteCores(const ParameterLayout& layout, const TensorisedLayer& layer,
                const Train& train, const std::vector<Core>& cores,
                const Doubles& before, const std::vector<Doubles>& weights,
                float* parameters, float* first, float* second) {
  for (size_t i = 0; i < cores.size(); ++i) {
    const Core& core = cores[i];
    const size_t index = train.first + i;
    const int64_t at = layout[layer.cores[index]].offset;
    const float* d = index < layer.bonds.size()
                         ? parameters + layout[layer.bonds[index]].offset
                         : nullptr;
    const double now = core.RootMeanSquare();
    const double ratio = now > 0 ? before[i] / now : 1;
    const double mean =
        MeanSecondMoment(core.values.size(),
                         static_cast<size_t>(layer.ranks[index + 1]),
                         second + at, d) *
        ratio * ratio;
    for (size_t e = 0; e < core.values.size(); ++e) {
      parameters[at + e] = static_cast<float>(core.values[e]);
      first[at + e] = 0;
      second[at + e] =
          static_cast<float>(mean * weights[i][e / (core.mode * core.right)] *
                             weights[i + 1][e % core.right]);
    }
  }
}

// Sets the rank entries of a bond to 1; `weights`: one for each entry.
void WriteBond(const Parameter& p, const Doubles& weights, float* parameters,
               float* first, float* second) {
  float* d = parameters + p.offset;
  float* v = second + p.offset;
  double mean = 0;
  for (int64_t k = 0; k < p.size; ++k) {
    mean += static_cast<double>(v[k]) * d[k] * d[k] / p.size;
  }
  for (int64_t k = 0; k < p.size; ++k) {
    d[k] = 1;
    first[p.offset + k] = 0;
    v[k] = static_cast<float>(mean * weights[k] * weights[k]);
  }
}

void Rewrite(const ParameterLayout& layout, const TensorisedLayer& layer,
             float* parameters, float* first, float* second) {
  const std::vector<Core> all = Folded(layout, layer, parameters);
  std::vector<Doubles> of_bonds(layer.bonds.size());
  for (const Train& train : TrainsOf(layer)) {
    std::vector<Core> cores(all.begin() + train.first,
                            all.begin() + train.last);
    OpenEnds(cores);
    Doubles before;
    for (const Core& core : cores) before.push_back(core.RootMeanSquare());
    OrthogonaliseFromTheRight(cores);
    const std::vector<Doubles> sigmas = ShareSingularValues(cores);
    Balance(before, cores);

    std::vector<Doubles> weights = {{1}};
    for (const Doubles& sigma : sigmas) weights.push_back(Weights(sigma));
    weights.push_back({1});
    WriteCores(layout, layer, train, cores, before, weights, parameters, first,
               second);
    for (size_t i = 0; i < sigmas.size(); ++i) {
      of_bonds[train.first + i] = weights[i + 1];
    }
  }
  for (size_t b = 0; b < layer.bonds.size(); ++b) {
    const Parameter& p = layout[layer.bonds[b]];
    if (of_bonds[b].empty()) of_bonds[b].assign(p.size, 1);
    WriteBond(p, of_bonds[b], parameters, first, second);
  }
}

}  // namespace

void MakeCanonical(const ParameterLayout& layout,
                   const std::vector<TensorisedLayer>& layers,
                   float* parameters, float* first_moment,
                   float* second_moment) {
  for (const TensorisedLayer& layer : layers) {
    const bool gone = std::any_of(layer.ranks.begin(), layer.ranks.end(),
                                  [](int64_t rank) { return rank == 0; });
    if (gone || layer.cores.size() < 2) continue;
    Rewrite(layout, layer, parameters, first_moment, second_moment);
  }
}

}  // namespace comera::trainer
