#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_OPEN_CORPUS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_OPEN_CORPUS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/corpus/corpus.h"

namespace comera::trainer {

// The texts that a job's data name. `activity` is called now and then while
// they are listed and read; may be empty. InvalidArgument: the spec, or it
// names no texts; NotFound, DataLoss as OpenTrainingData.
absl::StatusOr<std::unique_ptr<Corpus>> OpenCorpus(
    const v1::JobSpec& spec,
    const std::function<void(const std::string&)>& activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_OPEN_CORPUS_H_
