// Serves batches of clicks to the training loop.
#include "worker/trainer/data/clicks/click_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/area_under_curve.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/clicks/category_tables.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/random/permutation.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxBatch = int64_t{1} << 24;

using Part = ClickSource::Part;

}  // namespace

ClickData::ClickData(uint64_t seed, std::unique_ptr<ClickSource> source)
    : seed_(seed), source_(std::move(source)), baseline_loss_(Baseline()) {}

int64_t ClickData::train_samples() const { return source_->rows(Part::kTrain); }

int64_t ClickData::validation_samples() const {
  return source_->rows(Part::kValidation);
}

int64_t ClickData::test_samples() const { return source_->rows(Part::kTest); }

absl::Status ClickData::TrainBatch(int64_t step, int64_t batch_size, int rank,
                                   int world_size, Batch* batch) const {
  if (step < 0 || batch_size < 1 || batch_size > kMaxBatch || world_size < 1 ||
      rank < 0 || rank >= world_size || batch_size % world_size != 0 ||
      step > std::numeric_limits<int64_t>::max() / batch_size - 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("training batch: step ", step, ", batch size ", batch_size,
                     ", rank ", rank, " of ", world_size));
  }
  const int64_t share = batch_size / world_size;
  const int64_t first = share * rank;
  Resize(share, first, batch);
  const uint64_t samples = static_cast<uint64_t>(train_samples());
  for (int64_t sample = 0; sample < share; ++sample) {
    const uint64_t number =
        static_cast<uint64_t>(step * batch_size + first + sample);
    const uint64_t row =
        PermutedIndex(seed_, RandomStream::kEpochOrder, number / samples,
                      samples, number % samples);
    Fill(Part::kTrain, static_cast<int64_t>(row), sample, batch);
  }
  return absl::OkStatus();
}

absl::Status ClickData::ValidationBatch(int64_t first, int64_t count,
                                        Batch* batch) const {
  return HeldOutBatch(Part::kValidation, first, count, batch);
}

absl::Status ClickData::TestBatch(int64_t first, int64_t count,
                                  Batch* batch) const {
  return HeldOutBatch(Part::kTest, first, count, batch);
}

int64_t ClickData::HeldOutRow(Part part, int64_t index) const {
  return static_cast<int64_t>(
      PermutedIndex(seed_,
                    part == Part::kTest ? RandomStream::kTestOrder
                                        : RandomStream::kValidationOrder,
                    0, static_cast<uint64_t>(source_->rows(part)),
                    static_cast<uint64_t>(index)));
}

absl::Status ClickData::HeldOutBatch(Part part, int64_t first, int64_t count,
                                     Batch* batch) const {
  const int64_t rows = source_->rows(part);
  if (first < 0 || first > rows || count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation or test batch: samples from ", first, ", ",
                     count, ", of ", rows));
  }
  count = std::min({count, rows - first, kMaxBatch});
  Resize(count, first, batch);
  for (int64_t sample = 0; sample < count; ++sample) {
    Fill(part, HeldOutRow(part, first + sample), sample, batch);
  }
  return absl::OkStatus();
}

absl::Status ClickData::SaveTokenizer(const std::string& directory) const {
  RETURN_IF_ERROR(MakeDirectories(directory));
  ASSIGN_OR_RETURN(const std::optional<CategoryTables> categories,
                   source_->categories());
  InputFormat format;
  format.clicks = categories ? "criteo" : "rows";
  if (categories) RETURN_IF_ERROR(categories->Save(directory));
  return SaveInputFormat(format, directory);
}

std::optional<double> ClickData::ideal_auc(int64_t samples) const {
  if (!source_->knows_truth()) return std::nullopt;
  samples = std::clamp<int64_t>(samples, 0, validation_samples());
  std::vector<float> logits, labels;
  std::vector<float> dense(source_->shape().dense_features);
  std::vector<int32_t> categories(source_->shape().tables());
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t row = HeldOutRow(Part::kValidation, sample);
    logits.push_back(
        static_cast<float>(source_->TrueLogit(Part::kValidation, row)));
    labels.push_back(static_cast<float>(source_->Read(
        Part::kValidation, row, dense.data(), categories.data(), 1)));
  }
  return AreaUnderCurve(logits, labels);
}

void ClickData::Resize(int64_t size, int64_t first_sample, Batch* batch) const {
  batch->size = size;
  batch->length = 1;
  batch->first_sample = first_sample;
  batch->labels.resize(size);
  batch->dense.resize(size * source_->shape().dense_features);
  batch->categories.resize(size * source_->shape().tables());
}

void ClickData::Fill(Part part, int64_t row, int64_t sample,
                     Batch* batch) const {
  batch->labels[sample] = source_->Read(
      part, row, batch->dense.data() + sample * source_->shape().dense_features,
      batch->categories.data() + sample, batch->size);
}

double ClickData::Baseline() const {
  std::vector<float> dense(source_->shape().dense_features);
  std::vector<int32_t> categories(source_->shape().tables());
  const int64_t rows = validation_samples();
  int64_t clicks = 0;
  for (int64_t row = 0; row < rows; ++row) {
    clicks += source_->Read(Part::kValidation, row, dense.data(),
                            categories.data(), 1);
  }
  if (clicks == 0 || clicks == rows) return 0;
  const double p = static_cast<double>(clicks) / static_cast<double>(rows);
  return -(p * std::log(p) + (1 - p) * std::log1p(-p));
}

}  // namespace comera::trainer
