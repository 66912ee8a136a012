// Draws random tokens, masks and click logs from a seeded generator.

#include "tests/bench/bench_batch.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace comera::bench {
namespace {

constexpr double kMaskProbability = 0.15;

int64_t SampleLength(int64_t length, double fill, std::mt19937& random) {
  if (fill >= 1) return length;
  // Uniform around the mean, as wide as [1, length] allows.
  const double mean = std::max(1.0, fill * static_cast<double>(length));
  const double half = std::min(mean - 1, static_cast<double>(length) - mean);
  std::uniform_real_distribution<double> draw(mean - half, mean + half);
  return std::clamp<int64_t>(std::llround(draw(random)), 1, length);
}

trainer::Batch RandomClicks(const trainer::ClickShape& clicks, int64_t size,
                            std::mt19937& random) {
  trainer::Batch batch;
  batch.size = size;
  batch.length = 1;
  std::exponential_distribution<float> feature(1);
  for (int64_t i = 0; i < size * clicks.dense_features; ++i) {
    batch.dense.push_back(feature(random));
  }
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int64_t rows : clicks.table_rows) {
    for (int64_t i = 0; i < size; ++i) {
      // The density is 1 / (k + 1), Zipf's law, as in real click logs.
      const double k =
          std::pow(static_cast<double>(rows + 1), uniform(random)) - 1;
      batch.categories.push_back(static_cast<int32_t>(
          std::min<int64_t>(rows - 1, static_cast<int64_t>(k))));
    }
  }
  for (int64_t i = 0; i < size; ++i) {
    batch.labels.push_back(static_cast<int32_t>(random() % 4 == 0));
  }
  return batch;
}

// Documents that fill a row each; the token after the last one is drawn too.
trainer::Batch RandomText(const trainer::ModelConfig& config, int64_t size,
                          double fill, std::mt19937& random) {
  trainer::Batch batch;
  batch.size = size;
  batch.length = config.length;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t length = SampleLength(config.length, fill, random);
    for (int64_t j = 0; j < config.length; ++j) {
      const auto token = static_cast<int32_t>(random() % config.vocabulary);
      const bool real = j < length;
      batch.ids.push_back(real ? token : 0);
      batch.segments.push_back(0);
      batch.mask.push_back(real ? 1.0f : 0.0f);
      if (real && j > 0) batch.labels.push_back(token);
      if (real) {
        batch.label_rows.push_back(static_cast<int32_t>(i * config.length + j));
      }
    }
    batch.labels.push_back(static_cast<int32_t>(random() % config.vocabulary));
  }
  return batch;
}

}  // namespace

trainer::Batch RandomBatch(const trainer::ModelConfig& config, int64_t size,
                           double fill, uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  if (config.family == v1::ModelSpec::DLRM) {
    return RandomClicks(config.clicks, size, random);
  }
  if (config.family == v1::ModelSpec::CAUSAL_LM) {
    return RandomText(config, size, fill, random);
  }
  const auto token = [&] {
    return static_cast<int32_t>(random() % config.vocabulary);
  };
  const bool classifier = config.family == v1::ModelSpec::ENCODER_CLASSIFIER;
  std::bernoulli_distribution masked(kMaskProbability);
  trainer::Batch batch;
  batch.size = size;
  batch.length = config.length;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t first = i * config.length;
    const int64_t length = SampleLength(config.length, fill, random);
    for (int64_t j = 0; j < config.length; ++j) {
      const bool real = j < length;
      batch.ids.push_back(real ? token() : 0);
      batch.segments.push_back(0);
      batch.mask.push_back(real ? 1.0f : 0.0f);
      if (classifier || !real || !masked(random)) continue;
      batch.label_rows.push_back(static_cast<int32_t>(first + j));
      batch.labels.push_back(token());
    }
    if (!classifier) continue;
    batch.label_rows.push_back(static_cast<int32_t>(first));
    batch.labels.push_back(static_cast<int32_t>(random() % config.classes));
  }
  return batch;
}

}  // namespace comera::bench
