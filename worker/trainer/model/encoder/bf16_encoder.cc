// Runs an encoder in bfloat16 between its embedding and its output.
#include "worker/trainer/model/encoder/bf16_encoder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/encoder/make_bf16_branch.h"

namespace comera::trainer {

using kernels::Bf16Matrix;

Bf16Encoder::Bf16Encoder(const Plan& plan)
    : TransformerBody(plan), embedding_(plan.AtStage(0)) {
  const auto add = [&](int64_t layer, const char* part, uint32_t site,
                       std::unique_ptr<Bf16Branch> branch) {
    const std::string key = absl::StrCat("layers.", layer, ".", part);
    const int stage = 1 + static_cast<int>(halves_.size());
    halves_.push_back(std::make_unique<Bf16Block>(
        plan.AtStage(stage), absl::StrCat("encoder.", key), key, site,
        std::move(branch)));
  };
  for (int64_t i = 0; i < plan.config->layers; ++i) {
    const int stage = 1 + 2 * static_cast<int>(i);
    add(i, "attention", AttentionOutputDropout(i),
        MakeBf16AttentionBranch(plan.AtStage(stage), i, &head_runs()));
    add(i, "ffn", FfnOutputDropout(i),
        MakeBf16FfnBranch(plan.AtStage(stage + 1), i, &head_runs()));
  }
  const int64_t bytes =
      plan.max_rows * plan.config->hidden * int64_t{sizeof(uint16_t)};
  stream_ = plan.memory->whole()->Reserve("stream.bf16", bytes);
  grad_ = plan.memory->gradients()->Reserve("stream.bf16.grad", bytes);
}

Bf16Matrix Bf16Encoder::Rounded(int64_t rows) const {
  return Bf16Matrix(plan().memory->whole()->Bf16(stream_), rows,
                    plan().config->hidden);
}

Bf16Matrix Bf16Encoder::RoundedGrad(int64_t rows) const {
  return Bf16Matrix(plan().memory->gradients()->Bf16(grad_), rows,
                    plan().config->hidden);
}

absl::Status Bf16Encoder::Contract(const Step& step) {
  for (const auto& half : halves_) RETURN_IF_ERROR(half->Contract(step));
  return absl::OkStatus();
}

absl::Status Bf16Encoder::BeginBackward() {
  for (const auto& half : halves_) RETURN_IF_ERROR(half->BeginBackward());
  return absl::OkStatus();
}

absl::Status Bf16Encoder::FinishHalf(const Step& step, int half) {
  return halves_[half]->FinishBackward(step);
}

absl::Status Bf16Encoder::Forward(const Step& step) {
  const kernels::Matrix stream = Stream(step.rows());
  const Bf16Matrix rounded = Rounded(step.rows());
  RETURN_IF_ERROR(embedding_.Forward(step, stream));
  RETURN_IF_ERROR(plan().backend->Round(stream, rounded));
  for (const auto& half : halves_) {
    RETURN_IF_ERROR(half->Forward(step, rounded));
  }
  return plan().backend->Widen(rounded, stream);
}

absl::Status Bf16Encoder::BackwardHalf(const Step& step, int half) {
  kernels::Backend& backend = *plan().backend;
  const Bf16Matrix x = Rounded(step.rows()), grad = RoundedGrad(step.rows());
  if (half == halves() - 1) {
    RETURN_IF_ERROR(backend.Round(grad_output(step.rows()), grad));
  }
  if (half > 0) {
    RETURN_IF_ERROR(halves_[half - 1]->Output(step, x));
  } else {
    const kernels::Matrix stream = Stream(step.rows());
    RETURN_IF_ERROR(embedding_.Output(step, stream));
    RETURN_IF_ERROR(backend.Round(stream, x));
  }
  return halves_[half]->Backward(step, x, grad);
}

absl::Status Bf16Encoder::BackwardEmbedding(const Step& step) {
  const kernels::Matrix grad = grad_output(step.rows());
  RETURN_IF_ERROR(plan().backend->Widen(RoundedGrad(step.rows()), grad));
  return embedding_.Backward(step, grad);
}

}  // namespace comera::trainer
