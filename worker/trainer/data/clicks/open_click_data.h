#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_OPEN_CLICK_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_OPEN_CLICK_DATA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/batch/training_data.h"

namespace comera::trainer {

// OpenTrainingData for DLRM: criteo_tsv, whose parsed rows are cached, or
// synthetic_clicks. `spec` with its defaults filled in.
absl::StatusOr<std::unique_ptr<TrainingData>> OpenClickData(
    const v1::JobSpec& spec, const TrainingData::Options& options);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_OPEN_CLICK_DATA_H_
