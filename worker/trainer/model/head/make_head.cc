// Chooses the head of an encoder by the model's family.
#include "worker/trainer/model/head/make_head.h"

#include "worker/trainer/model/head/classifier_head.h"
#include "worker/trainer/model/head/masked_lm_head.h"

namespace comera::trainer {

std::unique_ptr<Head> MakeHead(const Plan& plan) {
  if (plan.config->family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    return std::make_unique<ClassifierHead>(plan);
  }
  return std::make_unique<MaskedLmHead>(plan);
}

}  // namespace comera::trainer
