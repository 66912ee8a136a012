// Draws clicks from a known model, for tests and benchmarks.
#include "worker/trainer/data/clicks/synthetic_clicks.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/data/random/counter_random.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 40;
// Each validation visits them all.
constexpr int64_t kMaxValidationRows = int64_t{1} << 26;
constexpr int64_t kMaxTableRows = int64_t{1} << 24;
constexpr int64_t kMaxFeatures = 1024;
// Log-odds of a click at average features; about a third of all rows are
// clicks.
constexpr double kBias = -1;
// Standard deviations of the two sums over features in the log-odds.
constexpr double kDenseSpread = 0.6;
constexpr double kCategorySpread = 1.2;

// In (0, 1).
double Uniform(uint32_t word) {
  return (static_cast<double>(word) + 0.5) * 0x1p-32;
}

// Uniform with mean 0 and this standard deviation.
double Centred(uint32_t word, double deviation) {
  return deviation * std::sqrt(3.0) * (2 * Uniform(word) - 1);
}

// The random words of one place of a stream, one after the other.
class Words {
 public:
  Words(uint64_t seed, RandomStream stream, uint64_t place)
      : seed_(seed), stream_(stream), place_(place) {}

  uint32_t Next() {
    if (used_ == 4) {
      words_ = RandomWords(seed_, stream_, place_, block_++);
      used_ = 0;
    }
    return words_[used_++];
  }

 private:
  const uint64_t seed_;
  const RandomStream stream_;
  const uint64_t place_;
  uint64_t block_ = 0;
  int used_ = 4;
  std::array<uint32_t, 4> words_ = {};
};

absl::Status CheckRange(const char* field, int64_t value, int64_t high) {
  if (value >= 1 && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.synthetic_clicks.", field, ": ", value, " is not in 1 to ", high));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SyntheticClicks>> SyntheticClicks::Create(
    const v1::SyntheticClicks& spec) {
  for (const absl::Status& status :
       {CheckRange("train_rows", spec.train_rows(), kMaxRows),
        CheckRange("validation_rows", spec.validation_rows(),
                   kMaxValidationRows),
        CheckRange("dense_features", spec.dense_features(), kMaxFeatures),
        CheckRange("table_rows", spec.table_rows_size(), kMaxFeatures)}) {
    if (!status.ok()) return status;
  }
  for (int64_t rows : spec.table_rows()) {
    const absl::Status status = CheckRange("table_rows", rows, kMaxTableRows);
    if (!status.ok()) return status;
  }
  return absl::WrapUnique(new SyntheticClicks(spec));
}

SyntheticClicks::SyntheticClicks(const v1::SyntheticClicks& spec)
    : seed_(spec.seed()),
      train_rows_(spec.train_rows()),
      validation_rows_(spec.validation_rows()) {
  shape_.dense_features = spec.dense_features();
  shape_.table_rows.assign(spec.table_rows().begin(), spec.table_rows().end());
  Words words(seed_, RandomStream::kClickSlope, 0);
  const double each =
      kDenseSpread / std::sqrt(static_cast<double>(shape_.dense_features));
  for (int64_t j = 0; j < shape_.dense_features; ++j) {
    slopes_.push_back(Centred(words.Next(), each));
  }
  for (int64_t rows : shape_.table_rows) {
    log_rows_.push_back(std::log1p(static_cast<double>(rows)));
  }
}

template <typename Feature, typename Category>
double SyntheticClicks::Visit(Part part, int64_t row, const Feature& feature,
                              const Category& category) const {
  Words words(seed_,
              part == Part::kTrain ? RandomStream::kClickTrainRow
                                   : RandomStream::kClickValidationRow,
              static_cast<uint64_t>(row));
  const double label = Uniform(words.Next());
  for (int64_t j = 0; j < shape_.dense_features; ++j) {
    feature(j, static_cast<float>(-std::log(Uniform(words.Next()))));
  }
  for (int64_t t = 0; t < shape_.tables(); ++t) {
    const auto value =
        static_cast<int64_t>(std::exp(Uniform(words.Next()) * log_rows_[t])) -
        1;
    category(t, std::clamp<int64_t>(value, 0, shape_.table_rows[t] - 1));
  }
  return label;
}

double SyntheticClicks::Weight(int64_t table, int64_t value) const {
  const double each =
      kCategorySpread / std::sqrt(static_cast<double>(shape_.tables()));
  return Centred(RandomWords(seed_, RandomStream::kClickWeight,
                             static_cast<uint64_t>(table),
                             static_cast<uint64_t>(value))[0],
                 each);
}

int32_t SyntheticClicks::Read(Part part, int64_t row, float* dense,
                              int32_t* categories, int64_t stride) const {
  double logit = kBias;
  const double label = Visit(
      part, row,
      [&](int64_t j, float x) {
        dense[j] = x;
        logit += slopes_[j] * (x - 1.0);
      },
      [&](int64_t t, int64_t value) {
        categories[t * stride] = static_cast<int32_t>(value);
        logit += Weight(t, value);
      });
  return label < 1 / (1 + std::exp(-logit)) ? 1 : 0;
}

double SyntheticClicks::TrueLogit(Part part, int64_t row) const {
  double logit = kBias;
  Visit(
      part, row, [&](int64_t j, float x) { logit += slopes_[j] * (x - 1.0); },
      [&](int64_t t, int64_t value) { logit += Weight(t, value); });
  return logit;
}

}  // namespace comera::trainer
