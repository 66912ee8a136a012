// Sums gradients over a gang, on the device or through the host.
#include "worker/trainer/step/gradient_sum.h"

#include <vector>

#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

bool GradientSum::overlaps() const {
  return !alone() && (communicator_->on_device() || backend_->in_host_memory());
}

absl::Status GradientSum::Start(ModelPlan& plan, const ParameterRange& bucket) {
  if (alone()) return absl::OkStatus();
  const bool at_end = bucket.first + bucket.size == plan.gradients().size;
  const size_t tail = at_end ? ModelPlan::kTailFloats : 0;
  const kernels::Vector reduced(plan.gradients().data + bucket.first,
                                bucket.size + static_cast<int64_t>(tail));
  const auto values = absl::MakeSpan(reduced.data, reduced.size);
  if (communicator_->on_device()) {
    return WithFailureClass(communicator_->EnqueueAllReduce(values, tail),
                            v1::COLLECTIVE_HANG);
  }
  if (!backend_->in_host_memory()) {
    // A communicator of the host cannot reach the device's memory.
    ASSIGN_OR_RETURN(std::vector<float> sums, plan.Download(reduced));
    RETURN_IF_ERROR(SumOnHost(absl::MakeSpan(sums), tail));
    return plan.Upload(sums, reduced);
  }
  RETURN_IF_ERROR(backend_->Synchronize());
  if (bucket.size == plan.gradients().size) return SumOnHost(values, tail);
  if (calls_ == nullptr) calls_ = std::make_unique<BackgroundCalls>();
  calls_->Add([this, values, tail] { return SumOnHost(values, tail); });
  return absl::OkStatus();
}

absl::Status GradientSum::Finish() {
  if (alone()) return absl::OkStatus();
  if (communicator_->on_device()) {
    return WithFailureClass(communicator_->JoinAllReduces(),
                            v1::COLLECTIVE_HANG);
  }
  return calls_ == nullptr ? absl::OkStatus() : calls_->Wait();
}

absl::Status GradientSum::SumOnHost(absl::Span<float> values,
                                    size_t exact_tail) {
  return WithFailureClass(
      compress_ ? communicator_->AllReduceCompressed(values, exact_tail)
                : communicator_->AllReduce(values),
      v1::COLLECTIVE_HANG);
}

absl::Status GradientSum::Check() {
  if (alone() || !communicator_->on_device()) return absl::OkStatus();
  return WithFailureClass(communicator_->Replayed(0), v1::COLLECTIVE_HANG);
}

}  // namespace comera::trainer
