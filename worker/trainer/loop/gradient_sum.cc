// Sums gradients over a gang, on the device or through the host.
#include "worker/trainer/loop/gradient_sum.h"

#include <vector>

#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

absl::Status GradientSum::Sum(ModelPlan& plan) {
  if (communicator_ == nullptr || communicator_->world_size() == 1) {
    return absl::OkStatus();
  }
  const kernels::Vector reduced = plan.reduced();
  const auto values = absl::MakeSpan(reduced.data, reduced.size);
  if (communicator_->on_device()) {
    return WithFailureClass(communicator_->EnqueueAllReduce(values),
                            v1::COLLECTIVE_HANG);
  }
  if (backend_->in_host_memory()) {
    RETURN_IF_ERROR(backend_->Synchronize());
    return SumOnHost(values);
  }
  // A communicator of the host cannot reach the device's memory.
  ASSIGN_OR_RETURN(std::vector<float> sums, plan.Download(reduced));
  RETURN_IF_ERROR(SumOnHost(absl::MakeSpan(sums)));
  return plan.Upload(sums, reduced);
}

absl::Status GradientSum::SumOnHost(absl::Span<float> values) {
  return WithFailureClass(compress_ ? communicator_->AllReduceCompressed(
                                          values, ModelPlan::kTailFloats)
                                    : communicator_->AllReduce(values),
                          v1::COLLECTIVE_HANG);
}

absl::Status GradientSum::Check() {
  if (communicator_ == nullptr || communicator_->world_size() == 1 ||
      !communicator_->on_device()) {
    return absl::OkStatus();
  }
  return WithFailureClass(communicator_->Replayed(0), v1::COLLECTIVE_HANG);
}

}  // namespace comera::trainer
