// Compares the engine's language models with the decoder in double precision at
// shapes that the published files do not have.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/contraction/cost_model.h"
#include "tests/golden/decoder_run.h"
#include "tests/golden/device_memory.h"
#include "tests/golden/double_decoder.h"
#include "tests/golden/report.h"
#include "tests/golden/specified_layout.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::golden {
namespace {

using trainer::Batch;
using trainer::LowRank;
using trainer::ModelConfig;
using trainer::Parameter;
using Values = std::vector<float>;

constexpr double kTolerance = 1e-5;
// Small gradients pass through CoLA's narrow factors one after the other: how
// sums are rounded depends on the processor (up to 1.7e-5 on a Zen 4).
constexpr double kColaTolerance = 3e-5;
// The gradient of a rank entry is a sum over its cores whose terms nearly
// cancel.
constexpr double kCoresTolerance = 1e-4;
// The share of the largest gradient that measures a key's bias, whose own is
// only rounding.
constexpr double kNoiseFloor = 1e-2;
constexpr int64_t kLength = 13;

struct Case {
  std::string name;
  v1::ModelSpec::Architecture architecture = v1::ModelSpec::LLAMA;
  int64_t heads = 5;
  int64_t kv_heads = 1;
  bool tied = false;
  // CoLA's rank; 0: dense.
  int64_t rank = 0;
  bool linear = false;
  bool gate_silu = true;
  float rope_theta = 1e4f;
  float epsilon = 1e-5f;
  bool pad_batches = false;
  // Every layer in cores, contracted on this path; none: dense.
  std::optional<kernels::TtPath> cores;
  // Words whose rows are dense beside those of the cores.
  std::vector<int32_t> dense_tokens;
};

// Modes whose products exceed the vocabulary, where they may, and unequal
// ranks.
trainer::Factorisation CoresOf(const trainer::FactorisableLayer& layer) {
  if (layer.embedding) return {{4, 2, 7}, {5, 3, 2}, {4, 3}};
  if (layer.layer_class == "output") return {{5, 6}, {8, 7}, {4, 5, 3}};
  const auto modes = [](int64_t width) -> std::vector<int64_t> {
    if (width == 30) return {5, 6};
    if (width == 6) return {2, 3};
    return {width};
  };
  trainer::Factorisation f = {modes(layer.inputs), modes(layer.outputs), {}};
  f.ranks.assign(f.input_modes.size() + f.output_modes.size() - 1, 4);
  f.ranks[f.input_modes.size() - 1] = 6;
  return f;
}

// Three layers of odd widths.
ModelConfig ConfigOf(const Case& c) {
  ModelConfig config;
  config.family = v1::ModelSpec::CAUSAL_LM;
  config.architecture = c.architecture;
  config.vocabulary = 53;
  config.layers = 3;
  config.hidden = 30;
  config.heads = c.heads;
  config.kv_heads = c.kv_heads;
  config.ffn = 17;
  config.length = kLength;
  config.max_positions = kLength + 4;
  config.segments = 0;
  config.tie_output = c.tied;
  config.dropout = 0;
  config.gate_silu = c.gate_silu;
  config.rope_theta = c.rope_theta;
  config.layer_norm_epsilon = c.epsilon;
  config.pad_batches = c.pad_batches;
  config.forced_path = c.cores;
  for (const trainer::FactorisableLayer& layer : FactorisableLayers(config)) {
    trainer::Factorisation& f = config.layers_by_name[layer.key];
    if (c.cores.has_value()) f = CoresOf(layer);
    if (layer.embedding) f.dense_tokens = c.dense_tokens;
    if (c.rank == 0 || layer.embedding || layer.in_head) continue;
    f.low_rank.kind = LowRank::Kind::kCola;
    f.low_rank.rank = c.rank;
    f.low_rank.linear = c.linear;
  }
  return config;
}

float Uniform(std::mt19937* random, float largest) {
  const float share = static_cast<float>((*random)() >> 8) * 0x1p-24f;
  return largest * (2 * share - 1);
}

// The largest entry of a parameter whose products neither fade nor explode, so
// that every layer takes part.
float LargestEntry(const Parameter& p) {
  const bool table = absl::StrContains(p.name, "embedding");
  if (p.kind == trainer::ParameterKind::kCore) return table ? 1.1f : 0.7f;
  if (p.shape.size() < 2) return 0.4f;
  return table ? 1 : 2 / std::sqrt(static_cast<float>(p.shape[0]));
}

// Rank entries and scales are about 1, but the last entry of each bond is below
// the threshold.
Values RandomParameters(const trainer::ParameterLayout& layout) {
  std::mt19937 random(7);
  Values values;
  for (const Parameter& p : layout.parameters()) {
    const bool rank = p.kind == trainer::ParameterKind::kRank;
    const float centre = rank || absl::EndsWith(p.name, ".gamma") ? 1 : 0;
    for (int64_t i = 0; i < p.size; ++i) {
      values.push_back(centre + Uniform(&random, LargestEntry(p)));
    }
    if (rank) values.back() = 0.005f;
  }
  return values;
}

// A row for each list of its documents' lengths, padded to kLength; no label at
// the last token of a document, nor at every fifth token.
Batch DocumentBatch(const std::vector<std::vector<int64_t>>& rows,
                    int64_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  Batch batch;
  batch.size = static_cast<int64_t>(rows.size());
  batch.length = kLength;
  for (const std::vector<int64_t>& documents : rows) {
    int32_t segment = 0;
    for (int64_t length : documents) {
      for (int64_t i = 0; i < length; ++i) {
        const auto row = static_cast<int32_t>(batch.ids.size());
        batch.ids.push_back(static_cast<int32_t>(random() % vocabulary));
        batch.segments.push_back(segment);
        batch.mask.push_back(1);
        if (i == length - 1 || row % 5 == 0) continue;
        batch.label_rows.push_back(row);
        batch.labels.push_back(static_cast<int32_t>(random() % vocabulary));
      }
      ++segment;
    }
    while (batch.ids.size() % kLength != 0) {
      batch.ids.push_back(0);
      batch.segments.push_back(0);
      batch.mask.push_back(0);
    }
  }
  return batch;
}

class DecoderTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(backend_, CpuFactory());
    ASSERT_OK_AND_ASSIGN(run_, DecoderRun::Create(config_, 4, backend_.get()));
    parameters_ = RandomParameters(run_->layout());
    ASSERT_OK(run_->SetParameters(parameters_));
  }

  void CompareGradients(const std::vector<double>& expected) {
    ASSERT_OK_AND_ASSIGN(const Values ours, run_->Gradients());
    ASSERT_EQ(ours.size(), expected.size());
    double largest = 0;
    for (double g : expected) largest = std::max(largest, std::fabs(g));
    for (const Parameter& p : run_->layout().parameters()) {
      const auto range = [&p](const auto& values) {
        return Values(values.begin() + p.offset,
                      values.begin() + p.offset + p.size);
      };
      const bool noise = absl::EndsWith(p.name, ".key.bias");
      report_.CompareTensor("grad." + p.name, range(ours), range(expected),
                            tolerance_, noise ? kNoiseFloor * largest : 0);
    }
  }

  const ModelConfig config_ = ConfigOf(GetParam());
  const double tolerance_ = GetParam().cores.has_value() ? kCoresTolerance
                            : GetParam().rank > 0        ? kColaTolerance
                                                         : kTolerance;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<DecoderRun> run_;
  Values parameters_;
  std::ostringstream out_;
  Report report_{&out_};
};

TEST_P(DecoderTest, ParametersAreTheSpecifiedOnes) {
  std::vector<std::string> ours, specified;
  const auto list = [](const trainer::ParameterLayout& layout,
                       std::vector<std::string>* names) {
    for (const Parameter& p : layout.parameters()) {
      names->push_back(p.name);
      for (int64_t extent : p.shape)
        absl::StrAppend(&names->back(), " ", extent);
    }
  };
  list(run_->layout(), &ours);
  list(SpecifiedLayout(config_), &specified);
  EXPECT_EQ(ours, specified);
}

// Batches of different shapes one after the other, of fewer samples than were
// planned, whose gradients add up.
TEST_P(DecoderTest, LogitsLossesAndGradientsAreThoseOfDoublePrecision) {
  const std::vector<Batch> batches = {
      DocumentBatch({{5, 1, 4}, {13}, {6, 7}, {2, 2, 2, 2, 2}},
                    config_.vocabulary, 1),
      DocumentBatch({{1}, {12}}, config_.vocabulary, 2),
      DocumentBatch({{3, 10}, {9}, {4, 4, 4}}, config_.vocabulary, 3),
  };
  std::vector<double> gradients(parameters_.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    report_.BeginFile(absl::StrCat("batch ", i));
    const Batch& batch = batches[i];
    const DoubleDecoderResult expected =
        RunDoubleDecoder(config_, parameters_, batch);
    ASSERT_OK_AND_ASSIGN(const Values logits, run_->Logits(batch));
    report_.CompareTensor("logits", logits, expected.logits, tolerance_);
    ASSERT_OK_AND_ASSIGN(const trainer::LossTotals totals,
                         run_->AddGradients(batch));
    EXPECT_EQ(totals.labels, batch.labels.size());
    report_.CompareTensor("loss", {static_cast<float>(totals.loss_sum)},
                          {static_cast<float>(expected.loss_sum)}, tolerance_);
    for (size_t j = 0; j < gradients.size(); ++j) {
      gradients[j] += expected.gradients[j];
    }
    CompareGradients(gradients);
  }
  EXPECT_EQ(report_.failed(), 0) << out_.str();
  EXPECT_GE(report_.passed(), 3 * 30) << out_.str();
}

Case Llama(const std::string& name, int64_t kv_heads) {
  Case c;
  c.name = name;
  c.kv_heads = kv_heads;
  return c;
}

std::vector<Case> DenseCases() {
  std::vector<Case> cases = {Llama("LlamaOneKvHead", 1)};
  Case tied = Llama("LlamaTied", 5);
  tied.tied = true;
  // So large that the norms and the last pairs of columns show it.
  tied.epsilon = 0.1f;
  tied.rope_theta = 50;
  cases.push_back(tied);
  Case padded = Llama("LlamaPadded", 1);
  padded.pad_batches = true;
  cases.push_back(padded);
  Case gpt2;
  gpt2.name = "Gpt2";
  gpt2.architecture = v1::ModelSpec::GPT2;
  gpt2.kv_heads = 5;
  gpt2.tied = true;
  cases.push_back(gpt2);
  gpt2.name = "Gpt2Padded";
  gpt2.pad_batches = true;
  gpt2.epsilon = 0.1f;
  cases.push_back(gpt2);
  return cases;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = DenseCases();
  Case grouped = Llama("LlamaGroupsOfThree", 5);
  grouped.heads = 15;
  cases.push_back(grouped);
  for (const auto& [name, linear, gate_silu] :
       {std::tuple{"ColaBetweenFactors", false, false},
        std::tuple{"ColaBoth", false, true},
        std::tuple{"ColaLinear", true, true}}) {
    Case cola = Llama(name, 1);
    cola.rank = 6;
    cola.linear = linear;
    cola.gate_silu = gate_silu;
    cases.push_back(cola);
  }
  for (const auto& [name, path] :
       {std::pair{"PrefixSuffix", kernels::TtPath::kPrefixSuffix},
        std::pair{"CoreByCore", kernels::TtPath::kCoreByCore}}) {
    for (Case cores : DenseCases()) {
      cores.name += name;
      cores.cores = path;
      cases.push_back(cores);
      cores.name += "DenseTokens";
      cores.dense_tokens = {0, 7, 30, 31, 52};
      cases.push_back(cores);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, DecoderTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace comera::golden
