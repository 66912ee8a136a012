#ifndef COMERA_WORKER_TRAINER_STEP_STEP_FIGURES_H_
#define COMERA_WORKER_TRAINER_STEP_STEP_FIGURES_H_

#include <cstdint>

#include "comera/v1/job.pb.h"
#include "worker/trainer/objective/objective.h"

namespace comera::trainer {

// The figures that a training step gave. A value type.
struct StepFigures {
  int64_t step = 0;  // how many were done with it
  // The mean over the labels of the global batch.
  double loss = 0;
  ObjectiveStep objective;
  double learning_rate_scale = 1;
  double gradient_norm = 0;
  v1::Stage stage = v1::EARLY;
  // Tokens of the gang, without padding, of the steps that were read so far.
  double tokens = 0;
  // Whether it was a spike (spike_watch.h): then it changed nothing, and the
  // norm is that of the gradient of the loss.
  bool left_out = false;
  // Whether a member of the gang was asked to stop before this step.
  bool stop = false;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STEP_STEP_FIGURES_H_
