#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_PROJECTIONS_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_PROJECTIONS_H_

#include <memory>

#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// The linear layers of output(attention(query(x), key(x), value(x))).
struct AttentionProjections {
  std::unique_ptr<Linear> query, key, value, output;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_ATTENTION_PROJECTIONS_H_
