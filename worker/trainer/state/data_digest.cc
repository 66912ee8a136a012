// Digests the samples of a job.
#include "worker/trainer/state/data_digest.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/data_paths.h"
#include "proto/data_url.h"

namespace comera::trainer {
namespace {

constexpr int64_t kBatches = 16;
constexpr int64_t kMaxBatchSamples = 64;
constexpr int64_t kValidationSamples = 64;

template <typename T>
void Append(const std::vector<T>& values, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(values.data()),
                values.size() * sizeof(T));
  bytes->push_back('|');
}

void Append(const Batch& batch, std::string* bytes) {
  Append(batch.ids, bytes);
  Append(batch.labels, bytes);
  Append(batch.dense, bytes);
  Append(batch.categories, bytes);
}

}  // namespace

absl::StatusOr<std::string> DataDigest(const TrainingData& data,
                                       int64_t batch_size,
                                       absl::Span<const int32_t> dense_tokens) {
  std::string bytes;
  Append(std::vector<int64_t>{data.train_samples(), data.validation_samples(),
                              data.vocabulary_size()},
         &bytes);
  Append(std::vector<double>{data.baseline_loss()}, &bytes);
  Batch batch;
  // The digest comes before it is known whether a batch of the job fits.
  batch_size = std::min(batch_size, kMaxBatchSamples);
  const int64_t steps = std::max<int64_t>(1, data.train_samples() / batch_size);
  const int64_t batches = std::min(kBatches, steps);
  for (int64_t i = 0; i < batches; ++i) {
    RETURN_IF_ERROR(
        data.TrainBatch(i * steps / batches, batch_size, 0, 1, &batch));
    Append(batch, &bytes);
  }
  RETURN_IF_ERROR(data.ValidationBatch(
      0, std::min(kValidationSamples, data.validation_samples()), &batch));
  Append(batch, &bytes);
  if (!dense_tokens.empty()) {
    Append(std::vector<int32_t>(dense_tokens.begin(), dense_tokens.end()),
           &bytes);
  }
  return Sha256Hex(bytes);
}

std::string WithFetchedFiles(const std::string& digest,
                             const v1::JobSpec& spec) {
  v1::JobSpec copy = spec;
  copy.clear_initial_weights();
  std::string fetched;
  for (const DataPath& path : DataPaths(&copy)) {
    const absl::string_view contents = FetchedUrlDigest(*path.path);
    if (contents.empty()) continue;
    absl::StrAppend(&fetched, path.field, " ", contents, "\n");
  }
  if (fetched.empty()) return digest;
  return Sha256Hex(absl::StrCat(digest, "\n", fetched));
}

}  // namespace comera::trainer
