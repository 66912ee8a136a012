#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_PHASED_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_PHASED_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/data/batch/training_data.h"

namespace comera::trainer {

// Training data of a job in phases: the corpus cut anew into samples of each
// phase's length, with the same vocabulary. Every phase begins an epoch of its
// own samples. What is reported of the whole, validation above all, is the last
// phase's.
class PhasedData : public TrainingData {
 public:
  struct Phase {
    int64_t first_step = 0;
    // Phases of one length share theirs.
    std::shared_ptr<const TrainingData> data;
  };

  // At least one, from step 0, by ascending first step.
  explicit PhasedData(std::vector<Phase> phases);

  int64_t train_samples() const override { return last().train_samples(); }
  int64_t validation_samples() const override {
    return last().validation_samples();
  }
  int64_t test_samples() const override { return last().test_samples(); }
  int32_t classes() const override { return last().classes(); }
  int32_t vocabulary_size() const override { return last().vocabulary_size(); }
  double baseline_loss() const override { return last().baseline_loss(); }
  std::vector<int64_t> TokenCounts() const override {
    return last().TokenCounts();
  }
  std::optional<double> validation_bytes_per_token() const override {
    return last().validation_bytes_per_token();
  }
  std::optional<double> test_bytes_per_token() const override {
    return last().test_bytes_per_token();
  }

  // batch_size is that of the step's phase.
  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override;
  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override;
  absl::Status TestBatch(int64_t first, int64_t count,
                         Batch* batch) const override;
  absl::Status SaveTokenizer(const std::string& directory) const override;

 private:
  const TrainingData& last() const { return *phases_.back().data; }

  const std::vector<Phase> phases_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_PHASED_DATA_H_
