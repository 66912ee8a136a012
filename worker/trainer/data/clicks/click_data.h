#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/clicks/click_source.h"

namespace comera::trainer {

// Batches of a click log.
//
// Thread safety: const methods may be called from several threads.
class ClickData : public TrainingData {
 public:
  // The training and validation parts of `source` have at least one row.
  ClickData(uint64_t seed, std::unique_ptr<ClickSource> source);

  int64_t train_samples() const override;
  int64_t validation_samples() const override;
  int64_t test_samples() const override;
  int32_t vocabulary_size() const override { return 0; }
  double baseline_loss() const override { return baseline_loss_; }
  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override;
  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override;
  absl::Status TestBatch(int64_t first, int64_t count,
                         Batch* batch) const override;
  absl::Status SaveTokenizer(const std::string& directory) const override;
  const ClickShape* clicks() const override { return &source_->shape(); }
  std::optional<double> ideal_auc(int64_t samples) const override;

 private:
  // The row of a held-out part that is shown as number `index`.
  int64_t HeldOutRow(ClickSource::Part part, int64_t index) const;
  absl::Status HeldOutBatch(ClickSource::Part part, int64_t first,
                            int64_t count, Batch* batch) const;
  // Makes `batch` hold `size` samples, whose values are not set.
  void Resize(int64_t size, int64_t first_sample, Batch* batch) const;
  void Fill(ClickSource::Part part, int64_t row, int64_t sample,
            Batch* batch) const;
  // Entropy of the click rate.
  double Baseline() const;

  const uint64_t seed_;
  const std::unique_ptr<ClickSource> source_;
  double baseline_loss_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_CLICK_DATA_H_
