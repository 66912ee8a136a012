// Small models, their batches, and their numeric gradients.
#include "tests/worker/trainer/model/small_models.h"

#include <cstdlib>
#include <iostream>
#include <random>
#include <utility>

#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {
namespace {

void DieUnless(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << std::endl;
  std::abort();
}

}  // namespace

ModelConfig SmallConfig(v1::ModelSpec::Family family, bool dense) {
  ModelConfig config;
  config.family = family;
  config.vocabulary = 30;
  config.layers = 2;
  config.hidden = 12;
  config.ffn = 24;
  config.heads = 3;
  config.max_positions = 6;
  config.segments = 2;
  config.classes = family == v1::ModelSpec::ENCODER_CLASSIFIER ? 3 : 0;
  config.length = 5;
  config.dropout = 0;
  config.forced_path = kernels::TtPath::kPrefixSuffix;
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    Factorisation& f = config.layers_by_name[layer.key];
    if (dense) continue;
    if (layer.embedding) {
      f = {{4, 2, 4}, {3, 2, 2}, {5, 4}};  // 32 rows for 30 words
    } else if (layer.layer_class == "ffn_up") {
      f = {{3, 4}, {2, 3, 4}, {3, 6, 5, 4}};
    } else if (layer.layer_class == "ffn_down") {
      f = {{6, 4}, {12}, {5, 4}};
    } else if (layer.layer_class == "output") {
      f = {{4, 3}, {4, 8}, {4, 5, 6}};  // 32 outputs for 30 words
    } else {
      f = {{3, 4}, {4, 3}, {3, 5, 3}};
    }
  }
  return config;
}

ModelConfig LargeVocabularyConfig(bool expanded) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM, true);
  config.tie_output = true;
  config.layers = 1;
  config.vocabulary = 9000;
  if (!expanded) {
    config.hidden = 1024;
    config.heads = 4;
  }
  config.layers_by_name.clear();
  SetLayers(/*dense=*/true, &config);
  config.layers_by_name["embedding"] = {
      {21, 20, 22},
      expanded ? std::vector<int64_t>{3, 2, 2} : std::vector<int64_t>{16, 8, 8},
      {4, 5}};
  return config;
}

ModelConfig SmallDecoder(v1::ModelSpec::Architecture architecture, bool dense) {
  ModelConfig config;
  config.family = v1::ModelSpec::CAUSAL_LM;
  config.architecture = architecture;
  const bool llama = architecture == v1::ModelSpec::LLAMA;
  config.vocabulary = 30;
  config.layers = 2;
  config.hidden = 12;
  config.ffn = 20;
  config.heads = 3;
  config.kv_heads = llama ? 1 : 3;
  config.tie_output = !llama;
  config.max_positions = 6;
  config.segments = 0;
  config.length = 5;
  config.dropout = 0;
  config.layer_norm_epsilon = 1e-5f;
  config.forced_path = kernels::TtPath::kPrefixSuffix;
  SetLayers(dense, &config);
  return config;
}

void SetLayers(bool dense, ModelConfig* config) {
  config->layers_by_name.clear();
  for (const FactorisableLayer& layer : FactorisableLayers(*config)) {
    Factorisation& f = config->layers_by_name[layer.key];
    if (dense) continue;
    const int modes = layer.embedding ? 3 : 2;
    f.input_modes = AutoModes(layer.inputs, modes, layer.embedding);
    f.output_modes =
        AutoModes(layer.outputs, modes, layer.layer_class == "output");
    f.ranks = layer.embedding ? std::vector<int64_t>{5, 4}
                              : std::vector<int64_t>{3, 5, 4};
  }
}

void SetInnerSilu(ModelConfig* config) {
  for (const FactorisableLayer& layer : FactorisableLayers(*config)) {
    Factorisation& f = config->layers_by_name[layer.key];
    f.silu = !f.dense() && MayActivate(layer);
  }
}

v1::JobSpec SmallDlrmSpec(bool dense) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::DLRM);
  v1::DlrmSpec& dlrm = *spec.mutable_model()->mutable_dlrm();
  for (int64_t width : {12, 6, 4}) dlrm.add_bottom_mlp(width);
  for (int64_t width : {8, 9, 1}) dlrm.add_top_mlp(width);
  dlrm.set_compressed_tables(2);
  dlrm.set_min_compressed_width(5);
  v1::CompressionSpec& compression = *spec.mutable_compression();
  if (dense) compression.set_method(v1::CompressionSpec::DENSE);
  compression.mutable_table()->add_output_modes(2);
  compression.mutable_table()->add_output_modes(2);
  compression.mutable_table()->add_ranks(3);
  compression.mutable_mlp()->add_ranks(3);
  return spec;
}

const ClickShape& SmallClickShape() {
  static const auto* shape = new ClickShape{3, {30, 5, 41, 30}};
  return *shape;
}

ModelConfig SmallDlrm(bool dense) {
  auto config = MakeModelConfig(SmallDlrmSpec(dense), SmallClickShape());
  DieUnless(config.status());
  return *std::move(config);
}

Batch RandomClicks(const ModelConfig& config, int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  Batch batch;
  batch.size = size;
  batch.length = 1;
  for (int64_t i = 0; i < size; ++i) {
    batch.labels.push_back(static_cast<int32_t>(random() % 2));
    for (int64_t j = 0; j < config.clicks.dense_features; ++j) {
      batch.dense.push_back(static_cast<float>(random() % 1000) / 500);
    }
  }
  for (int64_t rows : config.clicks.table_rows) {
    for (int64_t i = 0; i < size; ++i) {
      batch.categories.push_back(static_cast<int32_t>(random() % rows));
    }
  }
  return batch;
}

Batch RandomBatch(const ModelConfig& config, int64_t size, int64_t label_rows,
                  int64_t padding, uint32_t seed) {
  std::mt19937 random(seed);
  Batch batch;
  batch.size = size;
  batch.length = config.length;
  const int64_t rows = size * config.length;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t place = i % config.length;
    batch.ids.push_back(static_cast<int32_t>(random() % config.vocabulary));
    batch.segments.push_back(place * 2 > config.length ? 1 : 0);
    batch.mask.push_back(place < config.length - padding ? 1.0f : 0.0f);
  }
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    for (int64_t b = 0; b < size; ++b) {
      batch.label_rows.push_back(static_cast<int32_t>(b * config.length));
      batch.labels.push_back(static_cast<int32_t>(random() % config.classes));
    }
    return batch;
  }
  SpreadLabels(config, label_rows, seed, &batch);
  return batch;
}

void SpreadLabels(const ModelConfig& config, int64_t label_rows, uint32_t seed,
                  Batch* batch) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < batch->mask.size(); ++i) {
    if (batch->mask[i] == 1) tokens.push_back(static_cast<int32_t>(i));
  }
  batch->label_rows.clear();
  batch->labels.clear();
  for (int64_t j = 0; j < label_rows; ++j) {
    batch->label_rows.push_back(
        tokens[j * static_cast<int64_t>(tokens.size()) / label_rows]);
    batch->labels.push_back(static_cast<int32_t>(random() % config.vocabulary));
  }
}

void SetLengths(const std::vector<int64_t>& lengths, Batch* batch) {
  for (int64_t i = 0; i < batch->size * batch->length; ++i) {
    const int64_t length = lengths[i / batch->length % lengths.size()];
    batch->mask[i] = i % batch->length < length ? 1.0f : 0.0f;
  }
}

Batch Part(const Batch& batch, int64_t first, int64_t count) {
  Batch part;
  part.size = count;
  part.length = batch.length;
  part.first_sample = batch.first_sample + first;
  const int64_t begin = first * batch.length,
                end = begin + count * batch.length;
  part.ids.assign(batch.ids.begin() + begin, batch.ids.begin() + end);
  part.segments.assign(batch.segments.begin() + begin,
                       batch.segments.begin() + end);
  part.mask.assign(batch.mask.begin() + begin, batch.mask.begin() + end);
  for (size_t j = 0; j < batch.labels.size(); ++j) {
    if (batch.label_rows[j] < begin || batch.label_rows[j] >= end) continue;
    part.label_rows.push_back(
        static_cast<int32_t>(batch.label_rows[j] - begin));
    part.labels.push_back(batch.labels[j]);
  }
  return part;
}

TestModel::TestModel(const ModelConfig& model_config, int64_t batch_size,
                     uint64_t seed)
    : config(model_config), backend(kernels::CreateCpuBackend({1, 0})) {
  auto created = CreateModel(config, batch_size, backend.get());
  DieUnless(created.status());
  model = *std::move(created);
  parameters.resize(model->layout().size());
  gradients.resize(model->layout().size());
  model->Initialise(seed, parameters.data());
  state.seed = 3;
  state.step = 4;
}

double TestModel::Loss(const Batch& batch, bool train) {
  DieUnless(model->Forward(batch, parameters.data(), train, &state));
  const auto totals = model->ReadLoss();
  DieUnless(totals.status());
  return totals->loss_sum;
}

double TestModel::Gradient(const Batch& batch) {
  const double loss = Loss(batch, true);
  DieUnless(model->Backward(parameters.data(), gradients.data()));
  return loss;
}

std::vector<float> TestModel::Logits(const Batch& batch) {
  DieUnless(model->Forward(batch, parameters.data(), false, &state));
  auto logits = model->ReadLogits();
  DieUnless(logits.status());
  return *std::move(logits);
}

void TestModel::SpreadRanks() {
  std::mt19937 random(8);
  for (const Parameter& p : model->layout().parameters()) {
    if (p.kind != ParameterKind::kRank) continue;
    for (int64_t i = 0; i < p.size; ++i) {
      parameters[p.offset + i] =
          0.2f + static_cast<float>(random() % 1000) / 1000;
    }
  }
}

}  // namespace comera::trainer
