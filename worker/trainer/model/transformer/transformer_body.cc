// The batch and the residual stream of a transformer.
#include "worker/trainer/model/transformer/transformer_body.h"

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::Matrix;

TransformerBody::TransformerBody(const Plan& plan) : plan_(plan), rows_(plan) {
  const int64_t bytes =
      plan.max_rows * plan.config->hidden * int64_t{sizeof(float)};
  stream_ = plan.memory->whole()->Reserve("stream", bytes);
  grad_ = plan.memory->gradients()->Reserve("stream.grad", bytes);
}

absl::Status TransformerBody::SetBatch(const Batch& batch, Step* step) {
  RETURN_IF_ERROR(rows_.Set(batch, step));
  return SetTokens(batch, rows_.packed(), step->padded);
}

void TransformerBody::AppendShape(const Step& step,
                                  std::vector<int64_t>* shape) const {
  rows_.AppendShape(step, shape);
  AppendTokens(shape);
}

Matrix TransformerBody::Stream(int64_t rows) const {
  return Matrix(plan_.memory->whole()->Floats(stream_), rows,
                plan_.config->hidden);
}

Matrix TransformerBody::grad_output(int64_t rows) const {
  return Matrix(plan_.memory->gradients()->Floats(grad_), rows,
                plan_.config->hidden);
}

}  // namespace comera::trainer
