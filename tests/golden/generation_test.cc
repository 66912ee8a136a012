// Compares generation with the transformers library's: greedy continuations
// with keys and values kept, and distributions cut by top_p.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/published_decoder.h"
#include "worker/trainer/generate/cached_decoder.h"
#include "worker/trainer/generate/sampler.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::golden {
namespace {

using trainer::CachedDecoder;
using trainer::NewToken;
using trainer::Sampler;
using Values = std::vector<float>;

constexpr int kPrompts = 4;
constexpr int64_t kSteps = 20;
// The published numbers are of double precision.
constexpr double kLogitTolerance = 1e-5;
constexpr double kProbabilityTolerance = 1e-6;

double LargestDifference(const Values& a, const Values& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max<double>(largest, std::fabs(a[i] - b[i]));
  }
  return largest;
}

class GenerationGoldenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("COMERA_SHARED_DIR");
    const std::string folder =
        absl::StrCat(shared == nullptr ? "" : shared, "/golden/causal_lm");
    if (shared == nullptr || !std::filesystem::is_directory(folder)) {
      GTEST_SKIP() << "golden files are not here: set COMERA_SHARED_DIR to the "
                      "folder that holds golden/";
    }
    ASSERT_OK_AND_ASSIGN(
        file_, Safetensors::Read(folder +
                                 "/generation/llama_greedy_topp.safetensors"));
    ASSERT_OK_AND_ASSIGN(
        model_, Safetensors::Read(folder +
                                  "/llama_step/llama_untied_full.safetensors"));
    ASSERT_OK_AND_ASSIGN(config_, PublishedDecoderConfig(model_));
    config_.length = config_.max_positions = 48;
  }

  Values Get(const std::string& name) {
    const auto values = file_.GetFloat(name);
    EXPECT_OK(values) << name;
    return values.ok() ? *values : Values();
  }
  std::vector<int32_t> GetIds(const std::string& name) {
    const auto values = GetInt32(file_, name);
    EXPECT_OK(values) << name;
    return values.ok() ? *values : std::vector<int32_t>();
  }

  Safetensors file_, model_;
  trainer::ModelConfig config_;
};

// All prompts at once, the longest in two chunks.
TEST_F(GenerationGoldenTest, GreedyTextsAndTheirLogitsAreThePublishedOnes) {
  ASSERT_OK_AND_ASSIGN(
      const Values parameters,
      PublishedDecoderValues(model_, "", config_,
                             trainer::MakeModelLayout(config_).parameters));
  const auto backend = kernels::CreateCpuBackend({});
  CachedDecoder::Options options;
  options.max_slots = kPrompts;
  ASSERT_OK_AND_ASSIGN(const auto decoder,
                       CachedDecoder::Create(config_, parameters.data(),
                                             options, backend.get()));
  const int64_t width = config_.vocabulary;
  std::vector<NewToken> tokens;
  Values logits;
  std::vector<Values> expected;
  std::vector<std::vector<int32_t>> ids;
  for (int p = 0; p < kPrompts; ++p) {
    expected.push_back(Get(absl::StrCat("logits.", p)));
    ASSERT_EQ(expected[p].size(), kSteps * width);
    ids.push_back(GetIds(absl::StrCat("generated.", p)));
    ASSERT_EQ(ids[p].size(), kSteps);
    for (const int32_t id : GetIds(absl::StrCat("prompt.", p))) {
      const bool next = !tokens.empty() && tokens.back().slot == p;
      tokens.push_back({p, next ? tokens.back().position + 1 : 0, id, false});
      if (p == kPrompts - 1 && tokens.back().position == 6) {
        ASSERT_OK(decoder->Step({&tokens.back() - 6, 7}, &logits));
        tokens.resize(tokens.size() - 7);
        tokens.push_back({p, 6, id, false});  // once more changes nothing
      }
    }
    tokens.back().logits = true;
  }
  trainer::SamplingOptions greedy;
  greedy.temperature = 0;
  Sampler sampler(greedy);
  for (int64_t step = 0; step < kSteps; ++step) {
    ASSERT_OK(decoder->Step(tokens, &logits));
    ASSERT_EQ(logits.size(), kPrompts * width);
    std::vector<NewToken> next;
    for (const NewToken& token : tokens) {
      if (!token.logits) continue;
      const int64_t p = token.slot;
      const Values ours = Part(logits, p, width);
      EXPECT_LT(LargestDifference(ours, Part(expected[p], step, width)),
                kLogitTolerance)
          << "prompt " << p << ", step " << step;
      ASSERT_OK_AND_ASSIGN(const int32_t id, sampler.Choose(ours, step));
      ASSERT_EQ(id, ids[p][step]) << "prompt " << p << ", step " << step;
      next.push_back({p, token.position + 1, id, true});
    }
    tokens = next;
  }
}

TEST_F(GenerationGoldenTest, DistributionsAreThePublishedOnes) {
  const Values pairs = Get("pairs");
  ASSERT_EQ(pairs.size(), 4);
  const int64_t width = config_.vocabulary;
  int64_t cut = 0;
  for (int k = 0; k < 2; ++k) {
    trainer::SamplingOptions options;
    options.temperature = pairs[2 * k];
    options.top_p = pairs[2 * k + 1];
    Sampler sampler(options);
    for (int p = 0; p < kPrompts; ++p) {
      const Values logits = Get(absl::StrCat("logits.", p));
      const Values expected = Get(absl::StrCat("probs", k, ".", p));
      ASSERT_EQ(expected.size(), kSteps * width);
      for (int64_t step = 0; step < kSteps; ++step) {
        Values ours(width, 0.0f);
        ASSERT_OK_AND_ASSIGN(const auto candidates,
                             sampler.Candidates(Part(logits, step, width)));
        for (const Sampler::Candidate& c : candidates) {
          ours[c.id] = static_cast<float>(c.probability);
        }
        cut += width - static_cast<int64_t>(candidates.size());
        EXPECT_LT(LargestDifference(ours, Part(expected, step, width)),
                  kProbabilityTolerance)
            << "pair " << k << ", prompt " << p << ", step " << step;
      }
    }
  }
  EXPECT_GT(cut, 0);
}

}  // namespace
}  // namespace comera::golden
