// Tests starting causal language models from LLaMA and GPT-2 checkpoints.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "tests/worker/trainer/model/weights/published_tensors.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/model/weights/initial_weights.h"

namespace comera::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kLlama = v1::ModelSpec::LLAMA;
constexpr auto kGpt2 = v1::ModelSpec::GPT2;

class DecoderImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        testing::TempDir(), "/decoder_import_",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    ASSERT_OK(MakeDirectories(folder_));
  }

  void Write(const Tensors& tensors,
             const std::string& name = "model.safetensors") {
    Safetensors file;
    for (const auto& [tensor, t] : tensors) {
      ASSERT_OK(
          file.AddFloat(tensor, t.shape, t.values.data(), t.values.size()));
    }
    ASSERT_OK(file.WriteAtomically(absl::StrCat(folder_, "/", name)));
  }

  absl::StatusOr<InitialWeightsReport> Load(const ModelConfig& config,
                                            std::vector<float>* parameters) {
    parameters->assign(MakeModelLayout(config).parameters.size(), 1.0f);
    return LoadInitialWeights(folder_, config, parameters->data(), nullptr);
  }

  // What loading the tensors says.
  absl::Status StatusOf(const ModelConfig& config, const Tensors& tensors) {
    Write(tensors);
    std::vector<float> parameters;
    return Load(config, &parameters).status();
  }

  std::string folder_;
};

std::vector<ModelConfig> DenseConfigs() {
  std::vector<ModelConfig> configs;
  for (auto architecture : {kLlama, kGpt2}) {
    configs.push_back(SmallDecoder(architecture, true));
  }
  ModelConfig tied = configs[0];
  tied.tie_output = true;
  SetLayers(true, &tied);
  configs.push_back(tied);
  return configs;
}

TEST_F(DecoderImportTest, PublishedNamesIntoADenseModelAreACopy) {
  for (const ModelConfig& config : DenseConfigs()) {
    const std::vector<float> values = SomeValues(config);
    for (const std::string prefix :
         {"", config.llama() ? "model." : "transformer."}) {
      Write(Published(config, values, prefix));
      std::vector<float> copy;
      ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report,
                           Load(config, &copy));
      EXPECT_EQ(copy, values) << prefix;
      EXPECT_THAT(report.errors, IsEmpty());
      EXPECT_THAT(report.notes, SizeIs(1));
      EXPECT_THAT(report.notes,
                  Contains(HasSubstr(config.llama() ? "LLaMA" : "GPT-2")));
    }
  }
}

TEST_F(DecoderImportTest, ShardsAndAConfigThatAgrees) {
  const ModelConfig config = SmallDecoder(kLlama, true);
  const std::vector<float> values = SomeValues(config);
  std::vector<Tensors> shards(3);
  std::string map;
  size_t i = 0;
  for (auto& [name, tensor] : Published(config, values, "model.")) {
    const size_t shard = i++ % 3;
    absl::StrAppend(&map, map.empty() ? "" : ", ", "\"", name, "\": \"s", shard,
                    ".safetensors\"");
    shards[shard][name] = tensor;
  }
  for (size_t k = 0; k < 3; ++k) {
    Write(shards[k], absl::StrCat("s", k, ".safetensors"));
  }
  ASSERT_OK(WriteFileAtomically(folder_ + "/model.safetensors.index.json",
                                "{\"weight_map\": {" + map + "}}"));
  const std::string published = R"({"model_type": "llama", "hidden_size": 12,
      "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 30,
      "num_key_value_heads": 1, "intermediate_size": 20, "rms_norm_eps": )";
  ASSERT_OK(WriteFileAtomically(folder_ + "/config.json", published + "1e-5}"));
  std::vector<float> copy;
  ASSERT_OK(Load(config, &copy));
  EXPECT_EQ(copy, values);
  ASSERT_OK(WriteFileAtomically(folder_ + "/config.json", published + "1e-6}"));
  EXPECT_THAT(Load(config, &copy), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("rms_norm_eps")));
}

TEST_F(DecoderImportTest, OurExportIntoADenseModelIsACopy) {
  for (const ModelConfig& config : DenseConfigs()) {
    const std::vector<float> values = SomeValues(config);
    ASSERT_OK(ExportModel(config, values.data(), {}, folder_));
    std::vector<float> copy;
    ASSERT_OK(Load(config, &copy));
    EXPECT_EQ(copy, values);
    ModelConfig other = config;
    other.heads = 6;
    other.kv_heads = config.llama() ? 2 : 6;
    EXPECT_THAT(Load(other, &copy), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("heads: expected 6")));
  }
}

// Relative Frobenius distance of a layer's cores, multiplied out, to `weight`
// (inputs, outputs); its bonds' rank entries are 1.
double CoreDistance(const ParameterLayout& layout, const TensorisedLayer& layer,
                    const float* parameters, const float* weight) {
  std::vector<double> left = {1};
  int64_t rank = 1;
  for (const int index : layer.cores) {
    const Parameter& core = layout[index];
    const int64_t mode = core.shape[1], right = core.shape[2];
    const auto rows = static_cast<int64_t>(left.size()) / rank;
    std::vector<double> next(rows * mode * right);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t r = 0; r < rank; ++r) {
        for (int64_t j = 0; j < mode * right; ++j) {
          next[i * mode * right + j] +=
              left[i * rank + r] *
              parameters[core.offset + r * mode * right + j];
        }
      }
    }
    left = std::move(next);
    rank = right;
  }
  double distance = 0, norm = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    distance += std::pow(left[i] - weight[i], 2);
    norm += std::pow(weight[i], 2);
  }
  return std::sqrt(distance / norm);
}

// SmallDecoder with no more rank than each bond holds, as jobs have it.
ModelConfig TrainConfig(v1::ModelSpec::Architecture architecture) {
  ModelConfig config = SmallDecoder(architecture);
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    Factorisation& f = config.layers_by_name[layer.key];
    std::vector<int64_t> modes = f.input_modes;
    if (layer.embedding) {
      for (size_t i = 0; i < modes.size(); ++i) modes[i] *= f.output_modes[i];
    } else {
      modes.insert(modes.end(), f.output_modes.begin(), f.output_modes.end());
    }
    int64_t bound = 1;
    for (size_t i = 0; i < f.ranks.size(); ++i) {
      bound = f.ranks[i] = std::min(f.ranks[i], bound * modes[i]);
    }
    bound = 1;
    for (size_t i = f.ranks.size(); i-- > 0;) {
      bound = f.ranks[i] = std::min(f.ranks[i], bound * modes[i + 1]);
    }
  }
  return config;
}

TEST_F(DecoderImportTest, TensorTrainsTakeTheTruncatedSvd) {
  for (auto architecture : {kLlama, kGpt2}) {
    const ModelConfig dense = SmallDecoder(architecture, true);
    const std::vector<float> values = SomeValues(dense);
    Write(Published(dense, values, ""));
    const ModelConfig trains = TrainConfig(architecture);
    const ModelLayout from = MakeModelLayout(dense);
    const ModelLayout to = MakeModelLayout(trains);
    std::vector<float> loaded;
    ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report,
                         Load(trains, &loaded));
    ASSERT_EQ(report.errors.size(), to.layers.size());
    for (size_t i = 0; i < to.layers.size(); ++i) {
      const TensorisedLayer& layer = to.layers[i];
      EXPECT_EQ(report.errors[i].layer, layer.name);
      EXPECT_GT(report.errors[i].relative_error, 1e-3) << layer.name;
      EXPECT_LT(report.errors[i].relative_error, 0.95) << layer.name;
      if (layer.layer_class == "embedding" || layer.layer_class == "output") {
        continue;  // their modes are interleaved or exceed the matrix
      }
      const int weight = from.parameters.Find(layer.name + ".weight");
      EXPECT_NEAR(CoreDistance(to.parameters, layer, loaded.data(),
                               values.data() + from.parameters[weight].offset),
                  report.errors[i].relative_error, 1e-5)
          << layer.name;
    }
    // What stays dense is a copy.
    for (const Parameter& p : to.parameters.parameters()) {
      const int same = from.parameters.Find(p.name);
      if (same < 0) continue;
      for (int64_t i = 0; i < p.size; ++i) {
        ASSERT_EQ(loaded[p.offset + i],
                  values[from.parameters[same].offset + i])
            << p.name;
      }
    }
  }
}

TEST_F(DecoderImportTest, AnUntiedOutputThatIsMissingIsTheWordEmbedding) {
  const ModelConfig config = SmallDecoder(kLlama, true);
  const std::vector<float> values = SomeValues(config);
  Tensors tensors = Published(config, values, "model.");
  tensors.erase("lm_head.weight");
  Write(tensors);
  std::vector<float> loaded;
  ASSERT_OK(Load(config, &loaded));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  const float* words =
      &loaded[layout[layout.Find("decoder.embedding.word.weight")].offset];
  const float* output =
      &loaded[layout[layout.Find("head.output.weight")].offset];
  for (int64_t v = 0; v < 30; ++v) {
    for (int64_t i = 0; i < 12; ++i) {
      ASSERT_EQ(output[i * 30 + v], words[v * 12 + i]);
    }
  }
}

TEST_F(DecoderImportTest, LargerTablesAreCutAndBuffersAreLeftOut) {
  const ModelConfig config = SmallDecoder(kGpt2, true);
  const std::vector<float> values = SomeValues(config);
  Tensors tensors = Published(config, values, "transformer.");
  for (const char* table :
       {"transformer.wte.weight", "transformer.wpe.weight"}) {
    tensors[table].shape[0] += 3;
    tensors[table].values.insert(tensors[table].values.end(), 36, 55.0f);
  }
  tensors["transformer.h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  tensors["transformer.h.0.attn.masked_bias"] = {{1}, {-1e4f}};
  tensors["transformer.h.2.ln_1.weight"] = {{1}, {1}};
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  Write(tensors);
  std::vector<float> loaded;
  ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report,
                       Load(config, &loaded));
  EXPECT_EQ(loaded, values);
  EXPECT_THAT(report.notes, Contains(HasSubstr("4 tensors are not used")));
}

TEST_F(DecoderImportTest, OtherModelsAreRefusedByName) {
  const ModelConfig config = SmallDecoder(kLlama, true);
  const Tensors sound = Published(config, SomeValues(config), "model.");
  const auto expect = [&](const std::function<void(Tensors&)>& change,
                          const std::string& what) {
    Tensors tensors = sound;
    change(tensors);
    EXPECT_THAT(StatusOf(config, tensors),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  // Qwen has biases, Gemma 2 more norms.
  expect(
      [](Tensors& t) {
        t["model.layers.1.self_attn.q_proj.bias"] = {{12},
                                                     std::vector<float>(12)};
      },
      "something else: model.layers.1.self_attn.q_proj.bias");
  expect([](Tensors& t) { t.erase("model.norm.weight"); },
         "1 tensors are missing: model.norm.weight");
  expect([](Tensors& t) { t.erase("model.layers.0.mlp.gate_proj.weight"); },
         "1 tensors are missing: model.layers.0.mlp.gate_proj.weight");
  const std::string key = "model.layers.0.self_attn.k_proj.weight";
  expect(
      [&](Tensors& t) {
        t[key].shape = {12, 12};
        t[key].values.resize(144);
      },
      key + " has shape (12, 12), expected (4, 12)");
  expect([](Tensors& t) { t.erase("model.embed_tokens.weight"); },
         "no word embedding of a LLaMA");
  expect(
      [](Tensors& t) {
        t["x.embed_tokens.weight"] = t["model.embed_tokens.weight"];
      },
      "more than one word embedding");

  const ModelConfig gpt2 = SmallDecoder(kGpt2, true);
  EXPECT_THAT(StatusOf(gpt2, sound),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no word embedding of a GPT-2")));
  Tensors narrow = Published(gpt2, SomeValues(gpt2), "");
  narrow["h.0.attn.c_attn.weight"].shape = {36, 12};
  EXPECT_THAT(StatusOf(gpt2, narrow),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("(36, 12), expected (12, 36)")));
}

TEST_F(DecoderImportTest, ACompressedModelIsNoDenseOne) {
  const ModelConfig config = SmallDecoder(kLlama);
  ASSERT_OK(ExportModel(config, SomeValues(config).data(), {}, folder_));
  std::vector<float> loaded;
  EXPECT_THAT(Load(config, &loaded),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("compressed model")));
}

}  // namespace
}  // namespace comera::trainer
