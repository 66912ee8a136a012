// Events, as far as they are functions of the training state.
#ifndef COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_
#define COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "proto/model_family.h"
#include "worker/trainer/data/batch/training_data.h"
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

// A mean loss (nats) of tokens that stand for so many bytes each on average.
double BitsPerByte(double loss, double bytes_per_token);

// Sets what the validation loss in a StepMetrics or a TrainingResult means for
// a language model, if `model` is one.
template <typename Message>
void SetLanguageFigures(const v1::ModelSpec& model, const TrainingData& data,
                        Message* message) {
  if (!IsLanguageModel(model)) return;
  const double loss = message->validation_loss();
  message->set_validation_perplexity(std::exp(loss));
  const std::optional<double> bytes = data.validation_bytes_per_token();
  if (bytes) message->set_validation_bits_per_byte(BitsPerByte(loss, *bytes));
}

// The largest resident memory of this process so far.
int64_t PeakMemoryBytes();

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_
