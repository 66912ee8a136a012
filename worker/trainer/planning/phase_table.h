#ifndef COMERA_WORKER_TRAINER_PLANNING_PHASE_TABLE_H_
#define COMERA_WORKER_TRAINER_PLANNING_PHASE_TABLE_H_

#include <cstdint>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera::trainer {

// The shape of the steps of one phase.
struct TrainingPhase {
  int64_t first_step = 0;
  int64_t length = 0;      // tokens per sample
  int64_t batch_size = 0;  // samples over the whole gang

  friend bool operator==(const TrainingPhase& a, const TrainingPhase& b) {
    return a.first_step == b.first_step && a.length == b.length &&
           a.batch_size == b.batch_size;
  }
};

// The number of parts that a member computes its share of a batch in, one after
// the other: training.accumulate.
int64_t PartsOfBatch(const v1::JobSpec& spec);

// The phases of a job by step. A job without phases has one, of data.max_length
// and training.batch_size. The last goes on for ever: the late stage and
// validation run as that one. A value type.
class PhaseTable {
 public:
  // `spec` is valid and has its defaults filled in.
  explicit PhaseTable(const v1::JobSpec& spec);

  // The phase of a step, counted from 0.
  const TrainingPhase& At(int64_t step) const;
  const TrainingPhase& last() const { return phases_.back(); }
  const std::vector<TrainingPhase>& phases() const { return phases_; }

 private:
  std::vector<TrainingPhase> phases_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PLANNING_PHASE_TABLE_H_
