// Chooses the class that implements a model family.
#include "worker/trainer/model/create_model.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/decoder/decoder_model.h"
#include "worker/trainer/model/dlrm/dlrm_model.h"
#include "worker/trainer/model/encoder/encoder_model.h"
#include "worker/trainer/model/transformer/transformer_model.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<Model>> CreateModel(const ModelConfig& config,
                                                   int64_t batch_size,
                                                   kernels::Backend* backend) {
  RETURN_IF_ERROR(CheckModelConfig(config));
  if (config.family == v1::ModelSpec::DLRM) {
    return DlrmModel::Create(config, batch_size, backend);
  }
  // Row indices are 32 bits wide.
  if (batch_size < 1 || batch_size > INT32_MAX / config.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size: ", batch_size, " is out of range"));
  }
  std::unique_ptr<TransformerModel> model;
  if (config.causal()) {
    model = std::make_unique<DecoderModel>(config, batch_size, backend);
  } else {
    model = std::make_unique<EncoderModel>(config, batch_size, backend);
  }
  RETURN_IF_ERROR(model->Allocate());
  return model;
}

}  // namespace comera::trainer
