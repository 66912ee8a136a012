// Starting from a trained dense model instead of random numbers.
#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_INITIAL_WEIGHTS_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_INITIAL_WEIGHTS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

struct InitialWeightsReport {
  struct LayerError {
    std::string layer;
    // ||W - W'|| / ||W||, Frobenius; 0 for W = 0.
    double relative_error = 0;
  };
  // One entry per tensor-train layer, in the order of the model.
  std::vector<LayerError> errors;
  // One line each: what the file is, what it lacks, what of it is not used.
  std::vector<std::string> notes;
};

// Puts the weights of a dense checkpoint (DenseCheckpoint), a file or a folder,
// into `parameters`, host memory in the layout of MakeModelLayout(config),
// which must hold initial values: dense layers take them as they are,
// tensor-train layers their truncated TT-SVD at the ranks of `config`, with
// every rank entry at 1.
//
// Rank entries start at 1 and not at the singular values: the threshold, the
// penalty of the size and the learning rate of rank entries are all meant for
// entries that start at 1. What an entry is worth shows in its slices instead
// (TtSvd).
//
// A head that an encoder's file does not have stays random. InvalidArgument:
// any other tensor is missing (all are listed) or has another shape, or a
// causal language model's file is of another kind of model
// (CheckPublishedConfig, or tensors that the architecture does not have);
// NotFound: no file; DataLoss: malformed. `on_activity` may be empty.
absl::StatusOr<InitialWeightsReport> LoadInitialWeights(
    const std::string& path, const ModelConfig& config, float* parameters,
    const std::function<void(const std::string&)>& on_activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_INITIAL_WEIGHTS_H_
