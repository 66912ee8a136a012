#ifndef COMERA_WORKER_TRAINER_STATE_DATA_DIGEST_H_
#define COMERA_WORKER_TRAINER_STATE_DATA_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/batch/training_data.h"

namespace comera::trainer {

// Names the samples of a job by their contents, so that the same files on
// another machine, or with other times, are the same: their numbers, the
// vocabulary's size, the distribution of all labels, and the samples of some
// batches spread over the epoch; and the tokens that have dense rows in a model
// of these data, since the rows would be other tokens' otherwise. Errors are
// those of the batches.
absl::StatusOr<std::string> DataDigest(
    const TrainingData& data, int64_t batch_size,
    absl::Span<const int32_t> dense_tokens = {});

// Adds to a digest the whole contents of the files that the worker has fetched
// from URLs, which may change there between two looks at them. Returns `digest`
// where the spec's data has no such file.
std::string WithFetchedFiles(const std::string& digest,
                             const v1::JobSpec& spec);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_DATA_DIGEST_H_
