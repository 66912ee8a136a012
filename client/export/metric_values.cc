// Picks the known figures of metrics and rank snapshots.

#include "client/export/metric_values.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::client {

std::vector<MetricValue> ValuesOf(const v1::StepMetrics& m) {
  std::vector<MetricValue> values = {
      {"loss/training", m.loss()},
      {"size/parameters", static_cast<double>(m.size_parameters())},
      {"size/bytes", static_cast<double>(m.size_bytes())},
      {"speed/samples_per_second", m.samples_per_second()},
      {"optimizer/learning_rate_scale", m.learning_rate_scale()},
      {"optimizer/gradient_norm", m.gradient_norm()},
      {"progress/stage", static_cast<double>(m.stage())},
      {"progress/total_steps", static_cast<double>(m.total_steps())},
  };
  const auto add = [&](bool known, const char* name, double value) {
    if (known) values.push_back({name, value});
  };
  const auto add_positive = [&](const char* name, double value) {
    // A value of 0 stands for "none".
    add(value != 0, name, value);
  };
  add_positive("loss/smoothed", m.smoothed_loss());
  add(m.has_validation_loss(), "loss/validation", m.validation_loss());
  add_positive("loss/target", m.target_loss());
  add_positive("speed/tokens_per_second", m.tokens_per_second());
  add(m.has_model_flops_utilisation(), "speed/model_flops_utilisation",
      m.model_flops_utilisation());
  add(m.has_validation_perplexity(), "validation/perplexity",
      m.validation_perplexity());
  add(m.has_validation_bits_per_byte(), "validation/bits_per_byte",
      m.validation_bits_per_byte());
  add(m.has_validation_accuracy(), "validation/accuracy",
      m.validation_accuracy());
  add(m.has_validation_auc(), "validation/auc", m.validation_auc());
  add(m.has_validation_f1(), "validation/f1", m.validation_f1());
  add(m.has_validation_mcc(), "validation/mcc", m.validation_mcc());
  add(m.has_validation_normalized_entropy(), "validation/normalized_entropy",
      m.validation_normalized_entropy());
  add_positive("size/target_parameters",
               static_cast<double>(m.target_size_parameters()));
  add_positive("traffic/bytes_per_step",
               static_cast<double>(m.synchronized_bytes()));
  add_positive("traffic/dense_bytes_per_step",
               static_cast<double>(m.dense_synchronized_bytes()));
  add_positive("memory/peak_bytes", static_cast<double>(m.peak_memory_bytes()));
  add_positive("memory/device_bytes",
               static_cast<double>(m.device_memory_bytes()));
  add_positive("energy/joules", m.energy_joules());
  add(m.has_stepped_on_size(), "late/stepped_on_size",
      m.stepped_on_size() ? 1 : 0);
  add(m.stage() == v1::LATE, "late/target_index", m.target_index());
  add(m.has_eta(), "progress/eta_seconds",
      static_cast<double>(m.eta().seconds()) + 1e-9 * m.eta().nanos());
  return values;
}

std::vector<MetricValue> MeanRanks(const v1::RankSnapshot& snapshot) {
  std::map<std::string, std::pair<double, int>> sums;
  for (const v1::LayerRanks& layer : snapshot.layers()) {
    auto& [sum, bonds] = sums[layer.layer_class()];
    for (int rank : layer.current()) sum += rank;
    bonds += layer.current_size();
  }
  std::vector<MetricValue> values;
  for (const auto& [name, sum] : sums) {
    if (sum.second == 0) continue;
    values.push_back({absl::StrCat("rank/", name), sum.first / sum.second});
  }
  return values;
}

}  // namespace comera::client
