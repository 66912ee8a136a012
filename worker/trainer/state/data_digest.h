#ifndef COMERA_WORKER_TRAINER_STATE_DATA_DIGEST_H_
#define COMERA_WORKER_TRAINER_STATE_DATA_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/data/batch/training_data.h"

namespace comera::trainer {

// Names the samples of a job by their contents, so that the same files on
// another machine, or with other times, are the same: their numbers, the
// vocabulary's size, the distribution of all labels, and the samples of some
// batches spread over the epoch. Errors are those of the batches.
absl::StatusOr<std::string> DataDigest(const TrainingData& data,
                                       int64_t batch_size);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_DATA_DIGEST_H_
