// Multiplies every factorised layer out to a dense matrix.
#include "worker/trainer/export/dense_model.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 33;

// c (m, n) += scale a (m, k) b (k, n).
void AddProduct(const float* a, const float* b, int64_t m, int64_t k, int64_t n,
                float scale, float* c) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t x = 0; x < k; ++x) {
      const float factor = scale * a[i * k + x];
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += factor * b[x * n + j];
    }
  }
}

int64_t Product(const std::vector<int64_t>& modes) {
  return std::accumulate(modes.begin(), modes.end(), int64_t{1},
                         std::multiplies<>());
}

// Rows and columns of a layer's cores multiplied out, which may be more than
// the layer's own.
struct Product2d {
  int64_t rows, columns;
  std::vector<float> values;
};

// A tensor train: its indices in row-major order are the matrix's.
Product2d MultiplyTrain(const Factorisation& f, const ParameterLayout& layout,
                        const TensorisedLayer& layer, const float* parameters) {
  std::vector<float> left = {1};
  int64_t rank = 1;
  for (const int index : layer.cores) {
    const Parameter& core = layout[index];
    const auto prefixes = static_cast<int64_t>(left.size()) / rank;
    const int64_t width = core.shape[1] * core.shape[2];
    std::vector<float> next(prefixes * width, 0.0f);
    AddProduct(left.data(), parameters + core.offset, prefixes, rank, width, 1,
               next.data());
    left = std::move(next);
    rank = core.shape[2];
  }
  return {Product(f.input_modes), Product(f.output_modes), std::move(left)};
}

// A TTM: every core has a row and a column index.
Product2d MultiplyTtm(const ParameterLayout& layout,
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
  return {rows, columns, std::move(left)};
}

const Parameter& Find(const ParameterLayout& layout, const std::string& name) {
  return layout[layout.Find(name)];
}

// W of a layer without cores that is not simply there.
absl::Status MergeAdapter(const FactorisableLayer& layer, const LowRank& low,
                          const ParameterLayout& from, const float* parameters,
                          float* weight) {
  double scale = 1;
  if (low.kind != LowRank::Kind::kCola) {
    const Parameter& frozen = Find(from, layer.name + ".weight");
    std::copy_n(parameters + frozen.offset, frozen.size, weight);
    scale = low.scale / static_cast<double>(low.heads);
  } else if (!low.linear) {
    return absl::FailedPreconditionError(absl::StrCat(
        layer.key, ": a layer of CoLA is no matrix, so it has no dense form"));
  }
  const Parameter& a = Find(from, layer.name + ".a");
  const Parameter& b = Find(from, layer.name + ".b");
  AddProduct(parameters + a.offset, parameters + b.offset, layer.inputs,
             a.shape[1], layer.outputs, static_cast<float>(scale), weight);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportedModel> MakeDense(const ImportedModel& model) {
  ImportedModel dense;
  dense.config = model.config;
  dense.figures = model.figures;
  for (auto& [key, factorisation] : dense.config.layers_by_name) {
    factorisation = {};
  }
  const ModelLayout from = MakeModelLayout(model.config);
  const ModelLayout to = MakeModelLayout(dense.config);
  if (to.parameters.size() > kMaxParameters) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the dense model has ", to.parameters.size(), " parameters"));
  }
  dense.parameters.assign(to.parameters.size(), 0.0f);
  const float* values = model.parameters.data();
  for (const Parameter& p : to.parameters.parameters()) {
    const int same = from.parameters.Find(p.name);
    if (same < 0) continue;
    std::copy_n(values + from.parameters[same].offset, p.size,
                dense.parameters.begin() + p.offset);
  }
  for (const FactorisableLayer& layer : FactorisableLayers(model.config)) {
    const Factorisation& f = model.config.layers_by_name.at(layer.key);
    const Parameter& weight = Find(to.parameters, layer.name + ".weight");
    float* at = dense.parameters.data() + weight.offset;
    if (f.dense()) {
      const LowRank::Kind kind = f.low_rank.kind;
      if (kind == LowRank::Kind::kNone || kind == LowRank::Kind::kGalore) {
        continue;
      }
      RETURN_IF_ERROR(
          MergeAdapter(layer, f.low_rank, from.parameters, values, at));
      continue;
    }
    const auto cores = std::find_if(
        from.layers.begin(), from.layers.end(),
        [&](const TensorisedLayer& l) { return l.name == layer.name; });
    if (f.ranks[0] == 0) continue;  // pruned
    const Product2d product =
        layer.embedding ? MultiplyTtm(from.parameters, *cores, values)
                        : MultiplyTrain(f, from.parameters, *cores, values);
    for (int64_t row = 0; row < layer.inputs; ++row) {
      std::copy_n(product.values.begin() + row * product.columns, layer.outputs,
                  at + row * layer.outputs);
    }
  }
  return dense;
}

}  // namespace comera::trainer
