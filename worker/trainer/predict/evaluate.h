#ifndef COMERA_WORKER_TRAINER_PREDICT_EVALUATE_H_
#define COMERA_WORKER_TRAINER_PREDICT_EVALUATE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/trainer/predict/predictor.h"

namespace comera::trainer {

struct EvaluateOptions {
  PredictOptions predict;
  // Samples of the validation set to use; 0: all.
  int64_t samples = 0;
};

// How good the exported model in `directory` is on the validation set of
// `spec`, a job like its own with defaults filled in: with the tokenizer that
// was exported, whatever the spec names. Masks of a masked LM are the job's.
//
// Errors of Predictor::Open and OpenTrainingData; InvalidArgument also: the
// data are not of the model's kind.
absl::StatusOr<v1::Evaluation> Evaluate(const std::string& directory,
                                        v1::JobSpec spec,
                                        const EvaluateOptions& options);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_EVALUATE_H_
