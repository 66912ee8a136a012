// Copies the figures of a step to the host behind its operations.
#include "worker/trainer/step/step_readback.h"

#include "common/status_macros.h"

namespace comera::trainer {

StepReadback::StepReadback(const std::vector<kernels::ConstVector>& sources,
                           kernels::Backend* backend)
    : sources_(sources), backend_(backend) {
  for (const kernels::ConstVector& source : sources_) floats_ += source.size;
}

absl::StatusOr<std::unique_ptr<StepReadback>> StepReadback::Create(
    const std::vector<kernels::ConstVector>& sources,
    kernels::Backend* backend) {
  std::unique_ptr<StepReadback> numbers(new StepReadback(sources, backend));
  ASSIGN_OR_RETURN(void* const memory,
                   backend->AllocateHost(kSteps * numbers->floats_ *
                                         int64_t{sizeof(float)}));
  numbers->host_ = static_cast<float*>(memory);
  return numbers;
}

StepReadback::~StepReadback() {
  // The device may still write.
  if (enqueued_ > awaited_) backend_->Synchronize().IgnoreError();
  if (host_ != nullptr) backend_->FreeHost(host_);
}

absl::Status StepReadback::Enqueue() {
  if (enqueued_ - awaited_ == kSteps) {
    return absl::FailedPreconditionError(
        "the numbers of the steps before were not awaited");
  }
  float* to = Slot(enqueued_);
  for (const kernels::ConstVector& source : sources_) {
    RETURN_IF_ERROR(backend_->CopyToHostLater(
        to, source.data, source.size * int64_t{sizeof(float)}));
    to += source.size;
  }
  ASSIGN_OR_RETURN(marks_[enqueued_ % kSteps], backend_->Mark());
  ++enqueued_;
  return absl::OkStatus();
}

absl::StatusOr<const float*> StepReadback::Await() {
  if (enqueued_ == awaited_) {
    return absl::FailedPreconditionError("no numbers were enqueued");
  }
  RETURN_IF_ERROR(backend_->Wait(marks_[awaited_ % kSteps]));
  return Slot(awaited_++);
}

}  // namespace comera::trainer
