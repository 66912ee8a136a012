// Draws the initial parameters of every layer form.
#include "worker/trainer/model/linear/initialise.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "eigen3/Eigen/Core"
#include "eigen3/Eigen/QR"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

constexpr double kTableSigma = 0.02;
constexpr double kTwoPi = 6.283185307179586;

uint64_t Mix(uint64_t x) {  // SplitMix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Random values of one parameter, addressed by index.
class ParameterRandom {
 public:
  ParameterRandom(uint64_t seed, const std::string& name) {
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3u;
    key_ = Mix(seed ^ Mix(hash));
  }
  // In (0, 1).
  double Uniform(uint64_t index) const {
    return (static_cast<double>(Mix(key_ + Mix(index)) >> 11) + 0.5) * 0x1p-53;
  }
  double Gaussian(uint64_t index) const {
    return std::sqrt(-2 * std::log(Uniform(2 * index))) *
           std::cos(kTwoPi * Uniform(2 * index + 1));
  }

 private:
  uint64_t key_;
};

void FillGaussian(uint64_t seed, const Parameter& p, double sigma,
                  float* parameters) {
  const ParameterRandom random(seed, p.name);
  for (int64_t i = 0; i < p.size; ++i) {
    parameters[p.offset + i] = static_cast<float>(sigma * random.Gaussian(i));
  }
}

void FillUniform(uint64_t seed, const Parameter& p, double bound,
                 float* parameters) {
  const ParameterRandom random(seed, p.name);
  for (int64_t i = 0; i < p.size; ++i) {
    parameters[p.offset + i] =
        static_cast<float>(bound * (2 * random.Uniform(i) - 1));
  }
}

// Standard deviation of a layer's weights, dense or as the product of its
// cores. Tables start small beside what their rows learn, in whatever form they
// are: positions and segments start at the scale of the words, and at scale 1
// an optimiser whose steps are absolute would hardly move them.
double InitialDeviation(const ModelConfig& config,
                        const FactorisableLayer& layer, bool dense) {
  if (layer.layer_class == "table") return 0.05;
  if (layer.embedding) {
    const bool published = config.published_initialisation && !dense &&
                           !config.tie_output && !config.causal();
    return published ? 1 : kTableSigma;
  }
  const double fan = static_cast<double>(layer.inputs + layer.outputs);
  // Half of an MLP's units are silent behind the ReLU.
  return std::sqrt((layer.layer_class == "mlp" ? 2 : 1) / fan);
}

// The published code: Gaussian cores whose product has deviation sigma.
void FillPublished(uint64_t seed, const ModelLayout& layout,
                   const TensorisedLayer& layer, double sigma,
                   float* parameters) {
  const double order = static_cast<double>(layer.cores.size());
  for (size_t i = 0; i < layer.cores.size(); ++i) {
    if (layer.ranks[i + 1] == 0) continue;
    FillGaussian(seed, layout.parameters[layer.cores[i]],
                 std::pow(sigma, 1 / order) /
                     std::sqrt(static_cast<double>(layer.ranks[i + 1])),
                 parameters);
  }
}

// Random cores with orthonormal unfoldings times one factor: columns of the
// left unfolding before core `middle`, rows of the right one from there. Both
// factors of W = A B then have one singular value only, W has the Frobenius
// norm of a dense W of deviation sigma, and no direction starts ahead of the
// others, as it does in a product of Gaussian cores, whose spectrum is wide.
void FillOrthonormal(uint64_t seed, const ModelLayout& layout,
                     const TensorisedLayer& layer, size_t middle, double sigma,
                     float* parameters) {
  if (absl::c_linear_search(layer.ranks, 0)) return;  // pruned
  const size_t order = layer.cores.size();
  double entries = 1;
  for (int64_t mode : layer.modes) entries *= static_cast<double>(mode);
  // The bond behind the last core has rank 1.
  const int64_t rank = layer.ranks[middle];
  const double scale =
      std::pow(sigma * std::sqrt(entries / static_cast<double>(rank)),
               1 / static_cast<double>(order));
  for (size_t i = 0; i < order; ++i) {
    const Parameter& core = layout.parameters[layer.cores[i]];
    const int64_t kept = i < middle ? layer.ranks[i + 1] : layer.ranks[i];
    const int64_t other = core.size / kept;
    FillGaussian(seed, core, 1, parameters);
    // Columns of Q that stand for the rank `kept`; where it is larger than what
    // it faces, the rows are orthonormal instead.
    Eigen::MatrixXd values(std::max(kept, other), std::min(kept, other));
    const auto place = [&](int64_t k, int64_t o) -> float& {
      return parameters[core.offset +
                        (i < middle ? o * kept + k : k * other + o)];
    };
    for (int64_t k = 0; k < kept; ++k) {
      for (int64_t o = 0; o < other; ++o) {
        values(kept <= other ? o : k, kept <= other ? k : o) = place(k, o);
      }
    }
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(values);
    const Eigen::MatrixXd q =
        qr.householderQ() *
        Eigen::MatrixXd::Identity(values.rows(), values.cols());
    for (int64_t k = 0; k < kept; ++k) {
      for (int64_t o = 0; o < other; ++o) {
        const int64_t column = kept <= other ? k : o;
        // The sign makes Q uniform over the orthonormal matrices.
        const double sign = qr.matrixQR()(column, column) < 0 ? -1 : 1;
        place(k, o) =
            static_cast<float>(scale * sign * q(kept <= other ? o : k, column));
      }
    }
  }
}

// Columns [first, first + count) of a matrix become orthogonal and of this
// length: Gram-Schmidt, twice, on columns drawn at random.
void MakeOrthogonal(const Parameter& p, int64_t first, int64_t count,
                    double length, float* parameters) {
  const int64_t rows = p.shape[0], width = p.shape[1];
  std::vector<std::vector<double>> done;
  for (int64_t k = first; k < first + count; ++k) {
    float* const at = parameters + p.offset + k;
    std::vector<double> column(rows);
    for (int64_t i = 0; i < rows; ++i) column[i] = at[i * width];
    const auto times = [&](const std::vector<double>& other) {
      double sum = 0;
      for (int64_t i = 0; i < rows; ++i) sum += column[i] * other[i];
      return sum;
    };
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::vector<double>& other : done) {
        const double share = times(other);
        for (int64_t i = 0; i < rows; ++i) column[i] -= share * other[i];
      }
    }
    const double norm = std::sqrt(times(column));
    for (double& value : column) value /= norm;
    for (int64_t i = 0; i < rows; ++i) {
      at[i * width] = static_cast<float>(length * column[i]);
    }
    done.push_back(std::move(column));
  }
}

// W or what stands in for it. The frozen weights begin as dense ones; B at 0,
// so that the products begin at 0. A is that of the published codes:
// U(+-1 / sqrt(inputs)) for LoRA; for LTE orthogonal columns in each head, of
// length sqrt(inputs / rank); for CoLA what gives A B the variance of W.
void FillLowRank(uint64_t seed, const ModelLayout& layout,
                 const FactorisableLayer& layer, const LowRank& low,
                 float* parameters) {
  const auto at = [&](const char* name) -> const Parameter& {
    return layout.parameters[layout.parameters.Find(layer.name + name)];
  };
  const double sigma =
      std::sqrt(1 / static_cast<double>(layer.inputs + layer.outputs));
  const double rank = static_cast<double>(low.rank);
  switch (low.kind) {
    case LowRank::Kind::kNone:
    case LowRank::Kind::kGalore:
      FillGaussian(seed, at(".weight"), sigma, parameters);
      break;
    case LowRank::Kind::kLora:
      FillGaussian(seed, at(".weight"), sigma, parameters);
      FillUniform(seed, at(".a"),
                  1 / std::sqrt(static_cast<double>(layer.inputs)), parameters);
      break;
    case LowRank::Kind::kLte:
      FillGaussian(seed, at(".weight"), sigma, parameters);
      FillGaussian(seed, at(".a"), 1, parameters);
      for (int64_t head = 0; head < low.heads; ++head) {
        MakeOrthogonal(at(".a"), head * low.rank, low.rank,
                       std::sqrt(static_cast<double>(layer.inputs) / rank),
                       parameters);
      }
      break;
    case LowRank::Kind::kCola:
      for (const char* name : {".a", ".b"}) {
        FillGaussian(seed, at(name), std::sqrt(sigma) / std::pow(rank, 0.25),
                     parameters);
      }
  }
}

}  // namespace

void InitialiseParameters(const ModelConfig& config, uint64_t seed,
                          float* parameters) {
  const ModelLayout layout = MakeModelLayout(config);
  // Gammas and rank entries, which the rules below leave out, are 1, betas 0.
  for (const Parameter& p : layout.parameters.parameters()) {
    const bool one =
        p.kind == ParameterKind::kRank || absl::EndsWith(p.name, ".gamma");
    std::fill_n(parameters + p.offset, p.size, one ? 1.0f : 0.0f);
  }
  const auto at = [&](const std::string& name) -> const Parameter& {
    return layout.parameters[layout.parameters.Find(name)];
  };

  size_t next = 0;
  double table_sigma = 1;
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    const Factorisation& f = config.layers_by_name.at(layer.key);
    const double sigma = InitialDeviation(config, layer, f.dense());
    if (layer.layer_class == "embedding") table_sigma = sigma;
    if (f.dense() && f.low_rank.kind == LowRank::Kind::kNone) {
      FillGaussian(seed, at(layer.name + ".weight"), sigma, parameters);
    } else if (f.dense()) {
      FillLowRank(seed, layout, layer, f.low_rank, parameters);
    } else {
      if (!f.dense_tokens.empty()) {
        FillGaussian(seed, at(layer.name + ".dense_rows"), sigma, parameters);
      }
      const TensorisedLayer& tt = layout.layers[next++];
      if (config.published_initialisation) {
        FillPublished(seed, layout, tt, sigma, parameters);
      } else {
        const size_t middle =
            layer.embedding ? tt.cores.size() : f.input_modes.size();
        FillOrthonormal(seed, layout, tt, middle, sigma, parameters);
      }
    }
    // GPT-2's begin at 0.
    if (!layer.embedding && !config.causal()) {
      FillUniform(seed, at(layer.name + ".bias"),
                  1 / std::sqrt(static_cast<double>(layer.outputs)),
                  parameters);
    }
  }
  if (config.family == v1::ModelSpec::DLRM) return;
  if (config.causal()) {
    if (!config.llama()) {
      FillGaussian(seed, at("decoder.embedding.position"), table_sigma,
                   parameters);
    }
    return;
  }
  if (config.tie_output) {
    FillUniform(seed, at("head.output.bias"),
                1 / std::sqrt(static_cast<double>(config.vocabulary)),
                parameters);
  }
  // Words, positions and segments are added, so they start at one scale.
  FillGaussian(seed, at("encoder.embedding.position"), table_sigma, parameters);
  FillGaussian(seed, at("encoder.embedding.segment"), table_sigma, parameters);
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    FillGaussian(seed, at("head.fc2.weight"),
                 std::sqrt(1.0 / (config.hidden + config.classes)), parameters);
    FillUniform(seed, at("head.fc2.bias"),
                1 / std::sqrt(static_cast<double>(config.classes)), parameters);
  }
}

}  // namespace comera::trainer
