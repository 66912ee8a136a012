// Runs the input embedding and the blocks of an encoder, there and back.
#include "worker/trainer/model/encoder/encoder.h"

#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::Matrix;

Encoder::Encoder(const Plan& plan)
    : TransformerBody(plan), embedding_(plan.AtStage(0)) {
  for (int i = 0; i < static_cast<int>(plan.config->layers); ++i) {
    attention_.push_back(std::make_unique<AttentionBlock>(
        plan.AtStage(1 + 2 * i), i, &head_runs()));
    ffn_.push_back(
        std::make_unique<FfnBlock>(plan.AtStage(2 + 2 * i), i, &head_runs()));
  }
}

absl::Status Encoder::Contract(const Step& step) {
  for (size_t i = 0; i < ffn_.size(); ++i) {
    RETURN_IF_ERROR(attention_[i]->Contract(step));
    RETURN_IF_ERROR(ffn_[i]->Contract(step));
  }
  return absl::OkStatus();
}

absl::Status Encoder::FinishHalf(const Step& step, int half) {
  const size_t i = half / 2;
  return half % 2 == 1 ? ffn_[i]->FinishBackward(step)
                       : attention_[i]->FinishBackward(step);
}

absl::Status Encoder::Forward(const Step& step) {
  const Matrix stream = Stream(step.rows());
  RETURN_IF_ERROR(embedding_.Forward(step, stream));
  for (size_t i = 0; i < ffn_.size(); ++i) {
    RETURN_IF_ERROR(attention_[i]->Forward(step, stream));
    RETURN_IF_ERROR(ffn_[i]->Forward(step, stream));
  }
  return absl::OkStatus();
}

absl::Status Encoder::BeginBackward() {
  for (size_t i = 0; i < ffn_.size(); ++i) {
    RETURN_IF_ERROR(attention_[i]->BeginBackward());
    RETURN_IF_ERROR(ffn_[i]->BeginBackward());
  }
  return absl::OkStatus();
}

absl::Status Encoder::BackwardHalf(const Step& step, int half) {
  const Matrix grad = grad_output(step.rows());
  const Matrix scratch = Stream(step.rows());
  const size_t i = half / 2;
  if (half % 2 == 1) {
    return ffn_[i]->Backward(step, attention_[i]->output(step), grad, scratch);
  }
  if (i > 0) {
    return attention_[i]->Backward(step, ffn_[i - 1]->output(step), grad,
                                   scratch);
  }
  RETURN_IF_ERROR(embedding_.Output(step, scratch));
  return attention_[0]->Backward(step, {scratch, {}, {}}, grad, scratch);
}

absl::Status Encoder::BackwardEmbedding(const Step& step) {
  return embedding_.Backward(step, grad_output(step.rows()));
}

}  // namespace comera::trainer
