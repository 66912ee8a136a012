// Tests encoders whose residual stream is bfloat16 against float32.
#include "worker/trainer/model/encoder/bf16_encoder.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/fakes/bf16_backend.h"
#include "tests/worker/trainer/model/gradient_check.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {
namespace {

constexpr int64_t kBatch = 3;

// Counts the calls of an operation that only a stream of bfloat16 needs.
class Device : public kernels::Bf16Device {
 public:
  using Bf16Device::Bf16Device;
  absl::Status Widen(kernels::ConstBf16Matrix x, kernels::Matrix y) override {
    ++widened;
    return Bf16Device::Widen(x, y);
  }
  int widened = 0;
};

// Two layers of width 96 whose ranks are too large for rank space on a GPU.
ModelConfig Config() {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  config.hidden = 96;
  config.ffn = 128;
  config.heads = 12;
  config.dropout = 0.1f;
  config.machine = kernels::TypicalGpu(kernels::GpuProducts::kBf16);
  config.layers_by_name.clear();
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    Factorisation& f = config.layers_by_name[layer.key];
    if (layer.embedding) {
      f = {{4, 2, 4}, {8, 4, 3}, {5, 4}};
    } else if (layer.layer_class == "ffn_up") {
      f = {{8, 12}, {8, 16}, {8, 72, 16}};
    } else if (layer.layer_class == "ffn_down") {
      f = {{8, 16}, {12, 8}, {8, 75, 8}};  // filled up to 80
    } else if (layer.layer_class == "output") {
      f = {{8, 12}, {4, 8}, {8, 20, 8}};
    } else {
      f = {{8, 12}, {12, 8}, {8, 72, 8}};
    }
  }
  // The masked language model's output is dense.
  return config;
}

Factorisation& Layer(ModelConfig* config, const std::string& key) {
  return config->layers_by_name.at(key);
}

struct Results {
  double loss = 0;
  std::vector<float> gradients;
  int widened = 0;
};

// A training step of the model, in float32 or on a Device.
Results TrainingStep(const ModelConfig& config, bool bf16) {
  TestModel m(config, kBatch);
  Device device(m.backend.get());
  if (bf16) {
    absl::StatusOr<std::unique_ptr<Model>> model =
        CreateModel(config, kBatch, &device);
    EXPECT_OK(model.status());
    m.model = *std::move(model);
  }
  m.SpreadRanks();
  const Batch batch = RandomBatch(config, kBatch, 8, 1, 5);
  Results results;
  // Twice: gradients are added to those of before.
  m.Gradient(batch);
  results.loss = m.Gradient(batch);
  results.gradients = m.gradients;
  results.widened = device.widened;
  m.model.reset();
  return results;
}

// |a - b| / |b| of the gradients of each parameter that has one.
void ExpectGradientsNear(const ModelConfig& config, const Results& got,
                         const Results& want, double tolerance) {
  const TestModel m(config, kBatch);
  for (const Parameter& p : m.model->layout().parameters()) {
    // Softmax does not see a constant: the gradient is rounding.
    if (absl::EndsWith(p.name, "key.bias")) continue;
    double difference = 0, norm = 0;
    for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
      const double w = want.gradients[i];
      difference += (got.gradients[i] - w) * (got.gradients[i] - w);
      norm += w * w;
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm)) << p.name;
  }
}

void ExpectNearFloat32(const ModelConfig& config) {
  const Results floats = TrainingStep(config, false),
                bf16 = TrainingStep(config, true);
  EXPECT_EQ(floats.widened, 0);
  EXPECT_GT(bf16.widened, 0);
  EXPECT_NE(bf16.loss, floats.loss);
  EXPECT_NEAR(bf16.loss / floats.loss, 1, 0.001);
  ExpectGradientsNear(config, bf16, floats, 0.03);
}

TEST(Bf16EncoderTest, DiffersFromFloat32ByItsRounding) {
  ExpectNearFloat32(Config());
}

TEST(Bf16EncoderTest, RanksOfQueryKeyAndValueMayDiffer) {
  ModelConfig config = Config();
  Layer(&config, "layers.0.key").ranks[1] = 66;
  Layer(&config, "layers.1.value").ranks[1] = 88;
  ExpectNearFloat32(config);
}

TEST(Bf16EncoderTest, ASiluMayStandBetweenTheFactors) {
  ModelConfig config = Config();
  SetInnerSilu(&config);
  ExpectNearFloat32(config);
}

TEST(Bf16EncoderTest, OtherBranchesAreWidened) {
  ModelConfig config = Config();
  Layer(&config, "layers.0.query") = {};  // ordinary
  for (int64_t& rank : Layer(&config, "layers.1.ffn_down").ranks) rank = 0;
  ExpectNearFloat32(config);
  EXPECT_GT(TrainingStep(config, true).widened,
            TrainingStep(Config(), true).widened);
}

TEST(Bf16EncoderTest, AStreamOfFloat32WhereMostBranchesWantIt) {
  ModelConfig config = Config();
  for (const char* layer : {"0.query", "0.ffn_up", "1.ffn_up"}) {
    Layer(&config, absl::StrCat("layers.", layer)) = {};
  }
  EXPECT_EQ(TrainingStep(config, true).widened, 0);
}

}  // namespace
}  // namespace comera::trainer
