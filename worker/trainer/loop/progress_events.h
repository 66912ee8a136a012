// Events, as far as they are functions of the training state.
#ifndef COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_
#define COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_

#include <cstdint>
#include <vector>

#include "comera/v1/progress.pb.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/state/pareto_front.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

inline constexpr int64_t kBytesPerParameter = 4;  // fp32

v1::ParetoPoint ToProto(const ParetoCandidate& candidate);

// The ranks of every tensorised layer: those at step 0 (`initial`), and the
// alive entries of `parameters`, which are laid out by `current`.
v1::RankSnapshot MakeRankSnapshot(int64_t step, const ModelConfig& initial,
                                  const ModelConfig& current,
                                  const std::vector<float>& parameters);

// Sets the figures beside loss and accuracy that a validation gave, in a
// StepMetrics or a TrainingResult.
template <typename Message>
void SetFigures(const ValidationResult& validation, Message* message) {
  if (validation.f1) message->set_validation_f1(validation.f1->value);
  if (validation.mcc) message->set_validation_mcc(validation.mcc->value);
  if (validation.auc) message->set_validation_auc(validation.auc->value);
  if (validation.normalized_entropy) {
    message->set_validation_normalized_entropy(*validation.normalized_entropy);
  }
}

// The largest resident memory of this process so far.
int64_t PeakMemoryBytes();

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_
