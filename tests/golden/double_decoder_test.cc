// Compares the decoder in double precision with what the published ones
// computed, so that it can stand for them at other shapes.

#include "tests/golden/double_decoder.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/published_decoder.h"
#include "tests/golden/report.h"
#include "tests/golden/specified_layout.h"
#include "tests/golden/tape.h"

namespace comera::golden {
namespace {

using Values = std::vector<float>;

// The files' numbers are rounded to float32.
constexpr double kRounding = 3e-7;

TEST(TapeTest, GradientsFollowTheChainRule) {
  Tape tape;
  const Tape::Id x = tape.Leaf(3), y = tape.Leaf(-2), unused = tape.Leaf(5);
  // (2 x + 1) y + x^2 + y + x
  const Tape::Id product = tape.Multiply(tape.Linear(x, 2, 1), y);
  const Tape::Id square = tape.Function(x, 9, 6);
  const Tape::Id sum =
      tape.Sum({tape.Add(product, square), tape.Dot({x}, {tape.Leaf(1)}), y});
  EXPECT_EQ(tape.value(sum), -14 + 9 + 3 - 2);
  const std::vector<double> gradients = tape.Gradients(sum);
  EXPECT_EQ(gradients[x], -4 + 6 + 1);
  EXPECT_EQ(gradients[y], 7 + 1);
  EXPECT_EQ(gradients[unused], 0);
  EXPECT_EQ(tape.Gradients(square)[y], 0);
}

void Compare(const Safetensors& file, Report* report) {
  ASSERT_OK_AND_ASSIGN(const auto config, PublishedDecoderConfig(file));
  ASSERT_OK_AND_ASSIGN(const auto batch, PublishedDecoderBatch(file, "", 0));
  const trainer::ParameterLayout layout = SpecifiedLayout(config);
  ASSERT_OK_AND_ASSIGN(const Values parameters,
                       PublishedDecoderValues(file, "", config, layout));
  ASSERT_OK_AND_ASSIGN(const Values gradients,
                       PublishedDecoderValues(file, "grad.", config, layout));
  ASSERT_OK_AND_ASSIGN(const Values loss, file.GetFloat("loss"));
  ASSERT_OK_AND_ASSIGN(const Values logits, file.GetFloat("logits"));
  const DoubleDecoderResult ours = RunDoubleDecoder(config, parameters, batch);
  Values kept;
  for (size_t row = 0; row < batch.mask.size(); ++row) {
    if (batch.mask[row] == 0) continue;
    const Values part =
        Part(logits, static_cast<int64_t>(row), config.vocabulary);
    kept.insert(kept.end(), part.begin(), part.end());
  }
  const auto labels = static_cast<double>(batch.labels.size());
  report->CompareTensor("logits", ours.logits, kept, kRounding);
  report->CompareTensor("loss", {static_cast<float>(ours.loss_sum / labels)},
                        loss, kRounding);
  for (const trainer::Parameter& p : layout.parameters()) {
    Values mean;
    for (int64_t i = 0; i < p.size; ++i) {
      mean.push_back(static_cast<float>(ours.gradients[p.offset + i] / labels));
    }
    // The gradient of a key's bias is 0 but for rounding.
    report->CompareTensor(
        "grad." + p.name, mean,
        {gradients.begin() + p.offset, gradients.begin() + p.offset + p.size},
        kRounding, 1e-6);
  }
}

TEST(DoubleDecoderTest, PublishedDecodersAgree) {
  const char* shared = std::getenv("COMERA_SHARED_DIR");
  const std::string folder =
      shared == nullptr ? "" : std::string(shared) + "/golden/causal_lm/";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << "golden files are not here: set COMERA_SHARED_DIR to the "
                    "folder that holds golden/";
  }
  std::ostringstream out;
  Report report(&out);
  int files = 0;
  for (const char* topic : {"llama_step", "gpt2_step", "llama_tt_step"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(folder + topic)) {
      ASSERT_OK_AND_ASSIGN(const Safetensors file,
                           Safetensors::Read(entry.path().string()));
      report.BeginFile(entry.path().stem().string());
      Compare(file, &report);
      ++files;
    }
  }
  EXPECT_EQ(report.failed(), 0) << out.str();
  // Four of LLaMA, two of GPT-2, five of CoLA.
  EXPECT_GE(files, 11);
  EXPECT_GE(report.passed(), 350) << out.str();
}

}  // namespace
}  // namespace comera::golden
