// Chooses the head of a transformer by the model's family.
#include "worker/trainer/model/head/make_head.h"

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/head/classifier_head.h"
#include "worker/trainer/model/head/language_model_head.h"

namespace comera::trainer {

std::unique_ptr<Head> MakeHead(const Plan& plan) {
  if (plan.config->family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    return std::make_unique<ClassifierHead>(plan);
  }
  return std::make_unique<LanguageModelHead>(plan);
}

}  // namespace comera::trainer
