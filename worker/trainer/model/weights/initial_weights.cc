// Starts a model from the weights of an exported or dense checkpoint.
#include "worker/trainer/model/weights/initial_weights.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/dense_checkpoint.h"
#include "worker/trainer/model/weights/published_config.h"
#include "worker/trainer/model/weights/tt_svd.h"

namespace comera::trainer {
namespace {

constexpr char kSegments[] = "encoder.embedding.segment";
constexpr size_t kNamesInANote = 4;

int64_t Product(const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) product *= mode;
  return product;
}

// (rows, cols) with zeros below and on the right up to the new extents.
std::vector<float> Padded(std::vector<float> values, int64_t rows, int64_t cols,
                          int64_t new_rows, int64_t new_cols) {
  if (cols == new_cols) {
    values.resize(new_rows * new_cols);
    return values;
  }
  std::vector<float> result(new_rows * new_cols);
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(values.begin() + i * cols, cols, result.begin() + i * new_cols);
  }
  return result;
}

// From (m_1 ... m_d, n_1 ... n_d) to (m_1, n_1, ..., m_d, n_d).
std::vector<float> Interleaved(const std::vector<float>& table,
                               const std::vector<int64_t>& m,
                               const std::vector<int64_t>& n) {
  // Offset within the result of every row and of every column.
  const auto offsets = [&](const std::vector<int64_t>& modes, bool of_rows) {
    std::vector<int64_t> result(Product(modes), 0);
    for (size_t i = 0; i < result.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), stride = 1;
      for (size_t k = modes.size(); k-- > 0;) {
        result[i] += rest % modes[k] * stride * (of_rows ? n[k] : 1);
        rest /= modes[k];
        stride *= m[k] * n[k];
      }
    }
    return result;
  };
  const std::vector<int64_t> row_offsets = offsets(m, true);
  const std::vector<int64_t> col_offsets = offsets(n, false);
  std::vector<float> result(table.size());
  const float* from = table.data();
  for (int64_t row : row_offsets) {
    for (int64_t col : col_offsets) result[row + col] = *from++;
  }
  return result;
}

TtCores Decompose(const FactorisableLayer& layer, const Factorisation& f,
                  std::vector<float> weight) {
  weight = Padded(std::move(weight), layer.inputs, layer.outputs,
                  Product(f.input_modes), Product(f.output_modes));
  std::vector<int64_t> modes = f.input_modes;
  if (layer.embedding) {
    weight = Interleaved(weight, f.input_modes, f.output_modes);
    for (size_t i = 0; i < modes.size(); ++i) modes[i] *= f.output_modes[i];
  } else {
    modes.insert(modes.end(), f.output_modes.begin(), f.output_modes.end());
  }
  return TtSvd(std::move(weight), modes, f.ranks);
}

std::string Names(const std::vector<std::string>& names) {
  std::string text = absl::StrJoin(
      names.begin(), names.begin() + std::min(names.size(), kNamesInANote),
      ", ");
  if (names.size() > kNamesInANote) absl::StrAppend(&text, ", ...");
  return text;
}

class Loader {
 public:
  Loader(DenseCheckpoint* file, const ModelConfig& config, float* parameters)
      : file_(*file),
        config_(config),
        parameters_(parameters),
        layout_(MakeModelLayout(config)) {
    for (const FactorisableLayer& layer : FactorisableLayers(config)) {
      layers_[layer.name + ".weight"] = layer;
    }
  }

  absl::Status Run(const std::function<void(const std::string&)>& activity) {
    ModelConfig dense = config_;
    for (auto& [key, f] : dense.layers_by_name) f = {};
    const ModelLayout wanted = MakeModelLayout(dense);
    RETURN_IF_ERROR(FindMissing(wanted.parameters));
    RETURN_IF_ERROR(FindForeign(wanted.parameters));
    const size_t count = wanted.parameters.parameters().size();
    for (size_t i = 0; i < count; ++i) {
      const Parameter& p = wanted.parameters[static_cast<int>(i)];
      if (activity) {
        activity(absl::StrCat("initial weights, ", i, " of ", count));
      }
      if (file_.Has(p.name)) RETURN_IF_ERROR(Load(p));
    }
    report_.notes.push_back(
        absl::StrCat(file_.path(), ": weights named as by ", file_.naming()));
    if (!random_.empty()) {
      report_.notes.push_back(absl::StrCat(
          file_.path(), ": not in the file, so random: ", Names(random_)));
    }
    const std::vector<std::string> unread = file_.Unread();
    if (!unread.empty()) {
      report_.notes.push_back(
          absl::StrCat(file_.path(), ": ", unread.size(),
                       " tensors are not used: ", Names(unread)));
    }
    return absl::OkStatus();
  }

  InitialWeightsReport& report() { return report_; }

 private:
  absl::Status FindMissing(const ParameterLayout& wanted) {
    // An encoder takes a new head for each task, a decoder is one with its own.
    const bool new_head = !config_.causal();
    std::vector<std::string> missing;
    for (const Parameter& p : wanted.parameters()) {
      if (file_.Has(p.name)) continue;
      (p.in_head && new_head ? random_ : missing)
          .push_back(file_.NameInFile(p.name));
    }
    if (missing.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": ", missing.size(),
                     " tensors are missing: ", absl::StrJoin(missing, ", ")));
  }

  absl::Status FindForeign(const ParameterLayout& wanted) {
    std::vector<std::string> names;
    for (const Parameter& p : wanted.parameters()) names.push_back(p.name);
    const std::vector<std::string> foreign = file_.NeededBesides(names);
    if (foreign.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": ", foreign.size(),
                     " tensors are of a model that computes something else: ",
                     Names(foreign)));
  }

  absl::Status Load(const Parameter& p) {
    std::vector<int64_t> shape = p.shape;
    if (p.name == kSegments) {
      ASSIGN_OR_RETURN(const int64_t rows, file_.TableRows(p.name));
      if (rows < shape[0]) {
        // RoBERTa has one; tokens of a second sentence are new to it.
        shape[0] = std::max<int64_t>(1, rows);
        report_.notes.push_back(
            absl::StrCat(file_.path(), ": ", shape[0], " of ", p.shape[0],
                         " segment embeddings, the others are random"));
      }
    }
    ASSIGN_OR_RETURN(std::vector<float> values, file_.Get(p.name, shape));
    const int own = layout_.parameters.Find(p.name);
    if (own >= 0 && layout_.parameters[own].shape == p.shape) {
      std::copy(values.begin(), values.end(),
                parameters_ + layout_.parameters[own].offset);
      return absl::OkStatus();
    }
    const auto layer = layers_.find(p.name);
    if (layer != layers_.end()) Compress(layer->second, std::move(values));
    return absl::OkStatus();
  }

  // Moves the rows of a table that are dense to their parameter; the cores have
  // the other rows to approximate, beside zeros.
  void MoveDenseRows(const FactorisableLayer& layer, const Factorisation& f,
                     std::vector<float>* table) {
    if (f.dense_tokens.empty()) return;
    const int index = layout_.parameters.Find(layer.name + ".dense_rows");
    float* to = parameters_ + layout_.parameters[index].offset;
    for (const int32_t id : f.dense_tokens) {
      const auto row = table->begin() + id * layer.outputs;
      to = std::copy_n(row, layer.outputs, to);
      std::fill_n(row, layer.outputs, 0.0f);
    }
  }

  void Compress(const FactorisableLayer& layer, std::vector<float> weight) {
    for (const TensorisedLayer& tt : layout_.layers) {
      if (tt.name != layer.name) continue;
      const Factorisation& f = config_.layers_by_name.at(layer.key);
      MoveDenseRows(layer, f, &weight);
      const TtCores train = Decompose(layer, f, std::move(weight));
      for (size_t k = 0; k < tt.cores.size(); ++k) {
        std::copy(train.cores[k].begin(), train.cores[k].end(),
                  parameters_ + layout_.parameters[tt.cores[k]].offset);
      }
      report_.errors.push_back(
          {layer.name, train.norm > 0 ? train.error / train.norm : 0});
      return;
    }
  }

  DenseCheckpoint& file_;
  const ModelConfig& config_;
  float* const parameters_;
  const ModelLayout layout_;
  std::map<std::string, FactorisableLayer> layers_;  // by name of the weight
  std::vector<std::string> random_;
  InitialWeightsReport report_;
};

}  // namespace

absl::StatusOr<InitialWeightsReport> LoadInitialWeights(
    const std::string& path, const ModelConfig& config, float* parameters,
    const std::function<void(const std::string&)>& on_activity) {
  ASSIGN_OR_RETURN(DenseCheckpoint file, DenseCheckpoint::Open(path, config));
  if (config.causal()) {
    RETURN_IF_ERROR(CheckPublishedConfig(file.folder(), config));
  }
  Loader loader(&file, config, parameters);
  RETURN_IF_ERROR(loader.Run(on_activity));
  return std::move(loader.report());
}

}  // namespace comera::trainer
