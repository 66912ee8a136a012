#ifndef COMERA_WORKER_TRAINER_MODEL_HEAD_MAKE_HEAD_H_
#define COMERA_WORKER_TRAINER_MODEL_HEAD_MAKE_HEAD_H_

#include <memory>

#include "worker/trainer/model/head/head.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Makes the head of the configuration's family: that of a classifier, or of a
// language model, masked or causal.
std::unique_ptr<Head> MakeHead(const Plan& plan);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_HEAD_MAKE_HEAD_H_
