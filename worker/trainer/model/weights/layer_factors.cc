// Multiplies cores and adapters of a layer to one matrix or two.
#include "worker/trainer/model/weights/layer_factors.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/trainer/model/plan/layer_path.h"

namespace comera::trainer {
namespace {

HostMatrix Copied(const ParameterLayout& layout, const std::string& name,
                  const float* parameters) {
  const Parameter& p = layout[layout.Find(name)];
  HostMatrix matrix;
  matrix.rows = p.shape[0];
  matrix.cols = p.shape[1];
  matrix.values.assign(parameters + p.offset, parameters + p.offset + p.size);
  return matrix;
}

const TensorisedLayer& CoresOf(const ModelLayout& layout,
                               const FactorisableLayer& layer) {
  return *std::find_if(
      layout.layers.begin(), layout.layers.end(),
      [&](const TensorisedLayer& one) { return one.name == layer.name; });
}

// Cores [first, last) of a tensor train, whose indices in row-major order are
// the matrix's: (left rank * modes, right rank).
HostMatrix MultiplyTrain(const ParameterLayout& layout,
                         const TensorisedLayer& layer, size_t first,
                         size_t last, const float* parameters) {
  const Parameter& begin = layout[layer.cores[first]];
  HostMatrix left;
  left.rows = begin.shape[0] * begin.shape[1];
  left.cols = begin.shape[2];
  left.values.assign(parameters + begin.offset,
                     parameters + begin.offset + begin.size);
  for (size_t i = first + 1; i < last; ++i) {
    const Parameter& core = layout[layer.cores[i]];
    const int64_t width = core.shape[1] * core.shape[2];
    HostMatrix next(left.rows, width);
    AddProduct(left.values.data(), parameters + core.offset, left.rows,
               left.cols, width, 1, next.values.data());
    next.rows *= core.shape[1];
    next.cols = core.shape[2];
    left = std::move(next);
  }
  return left;
}

// A TTM, every core of which has a row and a column index.
HostMatrix MultiplyTtm(const ParameterLayout& layout,
                       const TensorisedLayer& layer, const float* parameters) {
  int64_t rows = 1, columns = 1, rank = 1;
  std::vector<float> left = {1};  // (rows, columns, rank)
  for (const int index : layer.cores) {
    const Parameter& core = layout[index];
    const int64_t m = core.shape[1], n = core.shape[2], right = core.shape[3];
    std::vector<float> product(rows * columns * m * n * right, 0.0f);
    AddProduct(left.data(), parameters + core.offset, rows * columns, rank,
               m * n * right, 1, product.data());
    // (rows, columns, m, n, right) to (rows, m, columns, n, right).
    left.resize(product.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t i = 0; i < m; ++i) {
          std::copy_n(product.begin() + ((r * columns + c) * m + i) * n * right,
                      n * right,
                      left.begin() + ((r * m + i) * columns + c) * n * right);
        }
      }
    }
    rows *= m;
    columns *= n;
    rank = right;
  }
  HostMatrix table;
  table.rows = rows;
  table.cols = columns;
  table.values = std::move(left);
  return table;
}

// The first rows and columns, as modes may multiply to more than a layer has.
HostMatrix Cut(HostMatrix whole, int64_t rows, int64_t cols) {
  if (whole.cols > cols) {
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(whole.values.begin() + i * whole.cols, cols,
                  whole.values.begin() + i * cols);
    }
  }
  whole.values.resize(rows * cols);
  whole.rows = rows;
  whole.cols = cols;
  return whole;
}

// The cores of a linear layer as A and B.
LayerFactors TrainFactors(const ModelLayout& layout,
                          const FactorisableLayer& layer,
                          const Factorisation& f, const float* parameters) {
  const TensorisedLayer& cores = CoresOf(layout, layer);
  const size_t split = f.input_modes.size();
  LayerFactors factors;
  factors.two = true;
  factors.a = MultiplyTrain(layout.parameters, cores, 0, split, parameters);
  factors.b = MultiplyTrain(layout.parameters, cores, split, cores.cores.size(),
                            parameters);
  // (rank * output modes, 1) is (rank, output modes) in memory.
  const int64_t rank = f.ranks[split - 1];
  factors.b.cols = factors.b.rows / rank;
  factors.b = Cut(std::move(factors.b), rank, layer.outputs);
  return factors;
}

// A tensorised table with its dense rows; without those of a pruned one it is
// 0.
HostMatrix TableOf(const ModelLayout& layout, const FactorisableLayer& layer,
                   const Factorisation& f, const float* parameters) {
  HostMatrix table(layer.inputs, layer.outputs);
  if (!IsPruned(f)) {
    table =
        Cut(MultiplyTtm(layout.parameters, CoresOf(layout, layer), parameters),
            layer.inputs, layer.outputs);
  }
  if (f.dense_tokens.empty()) return table;
  const HostMatrix rows =
      Copied(layout.parameters, layer.name + ".dense_rows", parameters);
  for (size_t i = 0; i < f.dense_tokens.size(); ++i) {
    std::copy_n(rows.values.begin() + i * layer.outputs, layer.outputs,
                table.values.begin() + f.dense_tokens[i] * layer.outputs);
  }
  return table;
}

// A frozen weight and what is trained beside it.
HostMatrix Merged(const ParameterLayout& layout, const FactorisableLayer& layer,
                  const LowRank& low, const float* parameters) {
  HostMatrix weight = Copied(layout, layer.name + ".weight", parameters);
  const auto scale =
      static_cast<float>(low.scale / static_cast<double>(low.heads));
  const auto add = [&](const std::string& prefix, float factor) {
    const Parameter& a = layout[layout.Find(layer.name + prefix + "a")];
    const Parameter& b = layout[layout.Find(layer.name + prefix + "b")];
    AddProduct(parameters + a.offset, parameters + b.offset, layer.inputs,
               a.shape[1], layer.outputs, factor, weight.values.data());
  };
  add(".", scale);
  if (low.kind == LowRank::Kind::kLte) add(".previous_", -scale);
  return weight;
}

}  // namespace

void AddProduct(const float* a, const float* b, int64_t m, int64_t k, int64_t n,
                float scale, float* c) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t x = 0; x < k; ++x) {
      const float factor = scale * a[i * k + x];
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += factor * b[x * n + j];
    }
  }
}

HostMatrix LayerFactors::Multiplied() && {
  if (!two) return std::move(a);
  HostMatrix product(a.rows, b.cols);
  AddProduct(a.values.data(), b.values.data(), a.rows, a.cols, b.cols, 1,
             product.values.data());
  return product;
}

bool IsStoredWhole(const Factorisation& factorisation) {
  const LowRank::Kind kind = factorisation.low_rank.kind;
  return factorisation.dense() &&
         (kind == LowRank::Kind::kNone || kind == LowRank::Kind::kGalore);
}

LayerFactors FactorsOf(const ModelConfig& config, const ModelLayout& layout,
                       const FactorisableLayer& layer,
                       const float* parameters) {
  const Factorisation& f = config.layers_by_name.at(layer.key);
  LayerFactors factors;
  if (layer.embedding && !f.dense()) {
    factors.a = TableOf(layout, layer, f, parameters);
    return factors;
  }
  if (IsPruned(f)) {
    factors.two = true;
    factors.a = HostMatrix(layer.inputs, 0);
    factors.b = HostMatrix(0, layer.outputs);
    return factors;
  }
  if (!f.dense()) {
    factors = TrainFactors(layout, layer, f, parameters);
    factors.silu = f.silu;
    return factors;
  }
  if (IsStoredWhole(f)) {
    factors.a = Copied(layout.parameters, layer.name + ".weight", parameters);
    return factors;
  }
  if (f.low_rank.kind == LowRank::Kind::kCola) {
    factors.two = true;
    factors.silu = f.silu_between_factors();
    factors.a = Copied(layout.parameters, layer.name + ".a", parameters);
    factors.b = Copied(layout.parameters, layer.name + ".b", parameters);
    return factors;
  }
  factors.a = Merged(layout.parameters, layer, f.low_rank, parameters);
  return factors;
}

}  // namespace comera::trainer
