// The layers of a DLRM and the checks of its configuration.
#include "worker/trainer/model/config/dlrm_layers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxColumns = 1024;
constexpr int64_t kMaxTableRows = int64_t{1} << 24;
constexpr int64_t kMaxWidth = int64_t{1} << 16;
constexpr int64_t kMaxMlpLayers = 64;

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t high) {
  if (value >= 1 && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is outside [1, ", high, "]"));
}

absl::Status CheckMlp(const std::string& field,
                      const std::vector<int64_t>& widths) {
  RETURN_IF_ERROR(
      CheckRange(absl::StrCat(field, " layers"), widths.size(), kMaxMlpLayers));
  for (int64_t width : widths) {
    RETURN_IF_ERROR(CheckRange(field, width, kMaxWidth));
  }
  return absl::OkStatus();
}

void AddMlp(const std::string& part, int64_t inputs,
            const std::vector<int64_t>& widths,
            std::vector<FactorisableLayer>* layers) {
  for (size_t i = 0; i < widths.size(); ++i) {
    const std::string key = absl::StrCat(part, ".", i);
    layers->push_back(
        {key, "dlrm." + key, "mlp", inputs, widths[i], false, false});
    inputs = widths[i];
  }
}

}  // namespace

DlrmInteraction InteractionOf(const ModelConfig& config) {
  return {config.clicks.tables() + 1,
          config.bottom_mlp.empty() ? 0 : config.bottom_mlp.back()};
}

std::vector<FactorisableLayer> DlrmLayers(const ModelConfig& config) {
  const DlrmInteraction interaction = InteractionOf(config);
  std::vector<FactorisableLayer> layers;
  AddMlp("bottom", config.clicks.dense_features, config.bottom_mlp, &layers);
  for (size_t t = 0; t < config.clicks.table_rows.size(); ++t) {
    const std::string key = absl::StrCat("tables.", t);
    layers.push_back({key, "dlrm." + key, "table", config.clicks.table_rows[t],
                      interaction.width, true, false});
  }
  AddMlp("top", interaction.outputs(), config.top_mlp, &layers);
  return layers;
}

absl::Status CheckDlrm(const ModelConfig& config) {
  RETURN_IF_ERROR(
      CheckRange("dense features", config.clicks.dense_features, kMaxColumns));
  RETURN_IF_ERROR(CheckRange("tables", config.clicks.tables(), kMaxColumns));
  for (int64_t rows : config.clicks.table_rows) {
    RETURN_IF_ERROR(CheckRange("table rows", rows, kMaxTableRows));
  }
  RETURN_IF_ERROR(CheckMlp("model.dlrm.bottom_mlp", config.bottom_mlp));
  RETURN_IF_ERROR(CheckMlp("model.dlrm.top_mlp", config.top_mlp));
  if (config.top_mlp.back() != 1) {
    return absl::InvalidArgumentError("model.dlrm.top_mlp: must end in 1");
  }
  if (config.length != 1) {
    return absl::InvalidArgumentError("length: a click log's is 1");
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
