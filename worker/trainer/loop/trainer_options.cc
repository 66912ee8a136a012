// Answers what follows from a trainer's options.
#include "worker/trainer/loop/trainer_options.h"

#include <algorithm>

namespace comera::trainer {

int TrainerOptions::member() const {
  return communicator == nullptr ? 0 : communicator->rank();
}

int TrainerOptions::world_size() const {
  return communicator == nullptr ? 1 : communicator->world_size();
}

int64_t TrainerOptions::ValidationSamples() const {
  const int64_t all = data->validation_samples();
  const int64_t wanted = spec.training().validation_samples();
  return wanted < 0 ? all : std::min(wanted, all);
}

void TrainerOptions::Describe(const std::string& activity_text) const {
  if (activity != nullptr) activity->Describe(activity_text);
}

}  // namespace comera::trainer
