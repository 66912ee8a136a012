// The predicted work of a step is what its operations do.
#include "worker/trainer/planning/step_prediction.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/contraction/ffn_cost.h"
#include "kernels/gpu_cost.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

constexpr int64_t kBatch = 32;

// The published six-encoder (REFERENCE.md, "Models").
ModelConfig SixEncoder() {
  ModelConfig config;
  config.family = v1::ModelSpec::ENCODER_CLASSIFIER;
  config.vocabulary = 30522;
  config.layers = 6;
  config.hidden = 768;
  config.ffn = 3072;
  config.heads = 12;
  config.max_positions = 512;
  config.classes = 3;
  config.length = 128;
  for (const FactorisableLayer &layer : FactorisableLayers(config)) {
    Factorisation &f = config.layers_by_name[layer.key];
    if (layer.embedding) {
      f = {{16, 20, 10, 10}, {4, 4, 8, 6}, {32, 32, 32}};
    } else if (layer.layer_class == "ffn_up") {
      f = {{12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16}};
    } else if (layer.layer_class == "ffn_down") {
      f = {{16, 16, 12}, {8, 8, 12}, {16, 30, 30, 30, 12}};
    } else {
      f = {{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
    }
  }
  return config;
}

ModelConfig WithRanksTimes(ModelConfig config, double factor) {
  for (auto &[key, f] : config.layers_by_name) {
    for (int64_t &rank : f.ranks) {
      rank = static_cast<int64_t>(static_cast<double>(rank) * factor);
    }
  }
  return config;
}

StepPrediction Predict(const ModelConfig &config) {
  const auto prediction = PredictStep(config, kBatch, {});
  EXPECT_OK(prediction.status());
  return prediction.value_or(StepPrediction());
}

TEST(StepPredictionTest, TimeAndMemoryFallWithTheRanks) {
  StepPrediction before = Predict(SixEncoder());
  for (double factor : {0.75, 0.5, 0.25, 0.0}) {
    const StepPrediction now = Predict(WithRanksTimes(SixEncoder(), factor));
    EXPECT_LT(now.seconds(), before.seconds()) << factor;
    EXPECT_LT(now.multiply_adds(), before.multiply_adds()) << factor;
    // Below some rank the residual stream alone decides, but for some bytes.
    EXPECT_LT(now.activation_bytes, 1.01 * before.activation_bytes) << factor;
    EXPECT_LT(now.parameter_bytes, before.parameter_bytes) << factor;
    before = now;
  }
  EXPECT_LT(before.activation_bytes,
            0.9 * Predict(SixEncoder()).activation_bytes);
}

TEST(StepPredictionTest, BlocksOfGradientsTakeLessMemoryForTheSameWork) {
  ModelConfig config = SixEncoder();
  for (auto &[key, f] : config.layers_by_name) f = {};
  const StepPrediction whole = Predict(config);
  config.gradients_by_block = true;
  const StepPrediction blocks = Predict(config);
  EXPECT_EQ(whole.gradient_bytes, whole.parameter_bytes);
  // The word table is the largest block.
  EXPECT_LT(blocks.gradient_bytes, whole.gradient_bytes / 2);
  EXPECT_GT(blocks.gradient_bytes, 4 * 30522 * 768);
  EXPECT_EQ(blocks.multiply_adds(), whole.multiply_adds());
  EXPECT_EQ(blocks.optimizer.seconds, whole.optimizer.seconds);
}

// GaLore projects the gradient of a matrix onto its rank, and the step of the
// projected gradient back.
TEST(StepPredictionTest, ProjectionsOfGaloreCount) {
  ModelConfig config = SixEncoder();
  for (auto &[key, f] : config.layers_by_name) f = {};
  const StepPrediction dense = Predict(config);
  constexpr int64_t kRank = 128;
  double projected = 0;
  for (const FactorisableLayer &layer : FactorisableLayers(config)) {
    if (layer.embedding || layer.outputs <= kRank) continue;
    LowRank &low = config.layers_by_name[layer.key].low_rank;
    low.kind = LowRank::Kind::kGalore;
    low.rank = kRank;
    projected += static_cast<double>(layer.inputs * layer.outputs);
  }
  const StepPrediction galore = Predict(config);
  EXPECT_LT(galore.optimizer_bytes, dense.optimizer_bytes);
  EXPECT_EQ(galore.optimizer.multiply_adds - dense.optimizer.multiply_adds,
            2 * kRank * projected);
  EXPECT_GT(galore.optimizer.seconds, dense.optimizer.seconds);
  // docs/benchmarks.md, "GPU": batch 1, replayed, on an H200.
  constexpr double kMeasuredMilliseconds = 4.13;
  ASSERT_OK_AND_ASSIGN(
      const StepPrediction small,
      PredictStep(config, 1, kernels::TypicalGpu(kernels::GpuProducts::kBf16)));
  EXPECT_NEAR(1e3 * small.seconds() / kMeasuredMilliseconds, 1, 0.3);
}

TEST(StepPredictionTest, FarBelowDense) {
  ModelConfig dense = SixEncoder();
  for (auto &[key, f] : dense.layers_by_name) f = {};
  const StepPrediction whole = Predict(dense),
                       compressed = Predict(SixEncoder());
  EXPECT_GT(whole.multiply_adds(), 5 * compressed.multiply_adds());
  EXPECT_GT(whole.seconds(), 3 * compressed.seconds());
  EXPECT_GT(whole.activation_bytes, 2 * compressed.activation_bytes);
  // Dense products alone: 6 layers of 4 d^2 + 2 d ffn, three times.
  const double products =
      3.0 * kBatch * 128 * 6 * (4.0 * 768 * 768 + 2.0 * 768 * 3072);
  EXPECT_GT(whole.multiply_adds(), products);
  EXPECT_LT(whole.multiply_adds(), 1.2 * products);
}

// The target of the design: what the blocks keep per token is the residual
// stream and rank-space vectors.
TEST(StepPredictionTest, ActivationsOfBatch32) {
  EXPECT_LT(Predict(SixEncoder()).activation_bytes, int64_t{500} << 20);
}

TEST(StepPredictionTest, SlowerMachinesTakeLonger) {
  kernels::MachineSpeed slow;
  slow.square_rate /= 10;
  slow.skinny_rate /= 10;
  const auto usual = PredictStepSeconds(SixEncoder(), kBatch, {});
  const auto slower = PredictStepSeconds(SixEncoder(), kBatch, slow);
  ASSERT_OK(usual.status());
  ASSERT_OK(slower.status());
  EXPECT_GT(*slower, 2 * *usual);
}

// What the steps of docs/benchmarks.md enqueued when they were measured on one
// H200, and how long they took: a line
//   step MODEL METHOD BATCH PRECISION MILLISECONDS ...
// and, for each work of it,
//   OPERATION TIMES KIND LAUNCHES MULTIPLY-ADDS BYTES FUNCTIONS SIDE OFF
// with the fields of GpuWork, of one call.
struct MeasuredStep {
  std::string name;
  std::map<std::string, double> milliseconds;  // by precision
  std::vector<std::pair<kernels::GpuWork, double>> works;
};

std::vector<MeasuredStep> MeasuredSteps() {
  std::vector<MeasuredStep> steps;
  std::ifstream file("tests/worker/trainer/planning/h200_steps.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string first, model, method, batch;
    words >> first;
    if (first == "step") {
      words >> model >> method >> batch;
      steps.push_back({model + " " + method + " " + batch, {}, {}});
      std::string precision;
      double milliseconds = 0;
      while (words >> precision >> milliseconds) {
        steps.back().milliseconds[precision] = milliseconds;
      }
      continue;
    }
    kernels::GpuWork work;
    double times = 0;
    int kind = 0;
    words >> times >> kind >> work.launches >> work.multiply_adds >>
        work.bytes >> work.functions >> work.side >> work.misaligned;
    EXPECT_FALSE(words.fail()) << line;
    work.kind = static_cast<kernels::GpuWork::Kind>(kind);
    steps.back().works.push_back({work, times});
  }
  return steps;
}

TEST(StepPredictionTest, StepsOfTheH200TakeWhatWasMeasured) {
  const std::map<std::string, kernels::GpuProducts> precisions = {
      {"bf16", kernels::GpuProducts::kBf16},
      {"tf32", kernels::GpuProducts::kTf32},
      {"fp32", kernels::GpuProducts::kFp32}};
  int rows = 0;
  for (const MeasuredStep &step : MeasuredSteps()) {
    for (const auto &[precision, measured] : step.milliseconds) {
      const kernels::MachineSpeed speed =
          kernels::TypicalGpu(precisions.at(precision));
      double predicted = 0;
      for (const auto &[work, times] : step.works) {
        predicted += 1e3 * times * kernels::GpuSeconds(work, speed);
      }
      ++rows;
      EXPECT_NEAR(predicted / measured, 1, 0.3)
          << step.name << " " << precision << ": measured " << measured
          << " ms, predicted " << predicted;
    }
  }
  EXPECT_EQ(rows, 31);
}

// The hidden layer stayed in registers in every measured step of the
// six-encoder; that CodeBERT's did not fit there made most of its launches.
TEST(StepPredictionTest, ChoosesThePathsThatWereFastOnTheH200) {
  for (const auto products :
       {kernels::GpuProducts::kFp32, kernels::GpuProducts::kTf32,
        kernels::GpuProducts::kBf16}) {
    const kernels::MachineSpeed speed = kernels::TypicalGpu(products);
    for (int64_t rows : {128, 4096, 8192, 16384}) {
      EXPECT_TRUE(kernels::RankSpaceFfnPays({rows, 3072, 30, 30}, speed))
          << rows;
      EXPECT_FALSE(kernels::RankSpaceFfnPays({rows, 4096, 128, 128}, speed))
          << rows;
    }
  }
}

TEST(StepPredictionTest, PartsTakeTheWorkOfTheBatchInTheMemoryOfOne) {
  ModelConfig dense = SixEncoder();
  for (auto &[key, f] : dense.layers_by_name) f = {};
  ASSERT_OK_AND_ASSIGN(const StepPrediction whole,
                       PredictStep(dense, kBatch, {}));
  ASSERT_OK_AND_ASSIGN(const StepPrediction part,
                       PredictStep(dense, kBatch / 4, {}));
  ASSERT_OK_AND_ASSIGN(const StepPrediction parts,
                       PredictStep(dense, kBatch / 4, {}, 4));
  EXPECT_DOUBLE_EQ(parts.multiply_adds(), whole.multiply_adds());
  EXPECT_EQ(parts.activation_bytes, part.activation_bytes);
  EXPECT_LT(parts.activation_bytes, whole.activation_bytes / 3);
  EXPECT_EQ(parts.optimizer.seconds, whole.optimizer.seconds);
  EXPECT_DOUBLE_EQ(parts.forward.seconds, 4 * part.forward.seconds);
  EXPECT_DOUBLE_EQ(parts.backward.seconds, 4 * part.backward.seconds);
}

TEST(StepPredictionTest, SecondsOfOperationsAddUpToTheStep) {
  for (const kernels::MachineSpeed &speed :
       {kernels::MachineSpeed(),
        kernels::TypicalGpu(kernels::GpuProducts::kBf16)}) {
    ASSERT_OK_AND_ASSIGN(const StepPrediction step,
                         PredictStep(SixEncoder(), kBatch / 4, speed, 4));
    double sum = 0;
    for (const auto &[name, seconds] : step.seconds_of) sum += seconds;
    EXPECT_NEAR(sum, step.seconds(), 1e-9 * step.seconds());
    EXPECT_GT(step.seconds_of.at("AdamW"), 0);
  }
}

TEST(StepPredictionTest, RefusesImpossibleConfigurations) {
  ModelConfig config = SixEncoder();
  config.heads = 5;
  EXPECT_THAT(PredictStep(config, kBatch, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(PredictStep(SixEncoder(), 0, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
