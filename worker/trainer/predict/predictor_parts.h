// The parts that predictors of all families consist of.
#ifndef COMERA_WORKER_TRAINER_PREDICT_PREDICTOR_PARTS_H_
#define COMERA_WORKER_TRAINER_PREDICT_PREDICTOR_PARTS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"
#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/predict/predictor.h"
#include "worker/trainer/predict/scorer.h"

namespace comera::trainer {

struct PredictorParts {
  v1::ServedModel served;
  ModelConfig config;
  // Declared before the scorer, which uses it.
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<Scorer> scorer;
};

// Errors of Predictor::Open but for the tokenizer's.
absl::StatusOr<PredictorParts> OpenModel(const std::string& directory,
                                         const PredictOptions& options);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_PREDICTOR_PARTS_H_
