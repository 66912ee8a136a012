#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_STREAM_INPUT_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_STREAM_INPUT_H_

#include "kernels/tensor.h"

namespace comera::trainer {

// Rows of the residual stream in a backward pass: rows * gamma + beta, from
// what the layer norm before kept, or with null gamma and beta the rows as they
// are.
struct StreamInput {
  kernels::ConstMatrix rows;
  kernels::ConstVector gamma, beta;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_STREAM_INPUT_H_
