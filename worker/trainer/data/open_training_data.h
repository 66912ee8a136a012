#ifndef COMERA_WORKER_TRAINER_DATA_OPEN_TRAINING_DATA_H_
#define COMERA_WORKER_TRAINER_DATA_OPEN_TRAINING_DATA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/batch/training_data.h"

namespace comera::trainer {

// The samples of the job. InvalidArgument: the spec; NotFound: a file or
// folder, or no file matches; DataLoss: malformed contents, with file and line.
absl::StatusOr<std::unique_ptr<TrainingData>> OpenTrainingData(
    const v1::JobSpec& spec, const TrainingData::Options& options);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_OPEN_TRAINING_DATA_H_
