// Allocates the buffers whose size depends on the ranks.
#include "worker/trainer/planning/model_plan.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/gradient_blocks.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<ModelPlan>> ModelPlan::Create(
    const ModelConfig& config, int64_t batch_size, const ModelFactory& factory,
    kernels::Backend* backend) {
  std::unique_ptr<ModelPlan> plan(
      new ModelPlan(config, batch_size, factory, backend));
  ASSIGN_OR_RETURN(plan->model_, factory(config, batch_size, backend));
  const ParameterLayout& layout = plan->layout();
  const auto reserve = [&](const char* name, int64_t floats) {
    return plan->arena_.Reserve(name, floats * int64_t{sizeof(float)});
  };
  plan->parameters_ = reserve("parameters", layout.size());
  plan->gradients_size_ = config.gradients_by_block
                              ? GradientBlocks(config, layout).buffer_size()
                              : layout.trained_size();
  plan->gradients_ = reserve("gradients", plan->gradients_size_ + kTailFloats);
  plan->first_moment_ = reserve("first moment", layout.moments_size());
  plan->second_moment_ = reserve("second moment", layout.moments_size());
  plan->projectors_ = reserve("projectors", layout.projectors_size());
  RETURN_IF_ERROR(plan->arena_.Commit());
  return plan;
}

absl::Status ModelPlan::Reshape(int64_t length, int64_t batch_size) {
  if (length == config_.length && batch_size == batch_size_) {
    return absl::OkStatus();
  }
  config_.length = length;
  batch_size_ = batch_size;
  model_.reset();
  ASSIGN_OR_RETURN(model_, factory_(config_, batch_size_, backend_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ModelPlan::Download(
    kernels::ConstVector buffer) {
  std::vector<float> values(buffer.size);
  RETURN_IF_ERROR(backend_->CopyToHost(values.data(), buffer.data,
                                       buffer.size * sizeof(float)));
  return values;
}

absl::Status ModelPlan::Upload(const std::vector<float>& values,
                               kernels::Vector buffer) {
  if (static_cast<int64_t>(values.size()) != buffer.size) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " numbers for a buffer of ", buffer.size));
  }
  return backend_->CopyToDevice(buffer.data, values.data(),
                                buffer.size * sizeof(float));
}

}  // namespace comera::trainer
