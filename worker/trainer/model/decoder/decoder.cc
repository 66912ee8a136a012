// Runs the input embedding and the blocks of a decoder, there and back.
#include "worker/trainer/model/decoder/decoder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/decoder/make_decoder_branch.h"

namespace comera::trainer {

using kernels::Matrix;

Decoder::Decoder(const Plan& plan)
    : TransformerBody(plan), embedding_(plan.AtStage(0)) {
  const auto add = [&](const Plan& stage, const std::string& key, uint32_t site,
                       std::unique_ptr<Branch> branch) {
    halves_.push_back(std::make_unique<PreNormBlock>(
        stage, "decoder." + key, key, site, std::move(branch)));
  };
  for (int i = 0; i < static_cast<int>(plan.config->layers); ++i) {
    const Plan attention = plan.AtStage(1 + 2 * i);
    const Plan ffn = plan.AtStage(2 + 2 * i);
    const std::string key = absl::StrCat("layers.", i, ".");
    add(attention, key + "attention", AttentionOutputDropout(i),
        MakeDecoderAttention(attention, i, &head_runs()));
    add(ffn, key + "ffn", FfnOutputDropout(i),
        MakeDecoderFfn(ffn, i, &head_runs()));
  }
}

absl::Status Decoder::Contract(const Step& step) {
  for (const auto& half : halves_) RETURN_IF_ERROR(half->Contract(step));
  return absl::OkStatus();
}

absl::Status Decoder::FinishHalf(const Step& step, int half) {
  return halves_[half]->FinishBackward(step);
}

absl::Status Decoder::Forward(const Step& step) {
  const Matrix stream = Stream(step.rows());
  RETURN_IF_ERROR(embedding_.Forward(step, stream));
  for (const auto& half : halves_) {
    RETURN_IF_ERROR(half->Forward(step, stream));
  }
  return absl::OkStatus();
}

absl::Status Decoder::BackwardHalf(const Step& step, int half) {
  return halves_[half]->Backward(step, grad_output(step.rows()),
                                 Stream(step.rows()));
}

absl::Status Decoder::BackwardEmbedding(const Step& step) {
  return embedding_.Backward(step, grad_output(step.rows()));
}

}  // namespace comera::trainer
