#ifndef COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBED_VOCABULARY_H_
#define COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBED_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"

namespace comera::trainer {

// The tokens in the vocabulary of a job without its data: `given` if above 0,
// the size to train, the entries of a vocabulary file that can be read; else a
// usual size, which *assumptions then names. InvalidArgument: out of range.
absl::StatusOr<int64_t> DescribedVocabulary(
    const v1::JobSpec& spec, int64_t given,
    std::vector<std::string>* assumptions);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBED_VOCABULARY_H_
