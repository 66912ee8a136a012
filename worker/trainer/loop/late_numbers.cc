#include "worker/trainer/loop/late_numbers.h"

#include "common/status_macros.h"

namespace comera::trainer {

LateNumbers::LateNumbers(const std::vector<kernels::ConstVector>& sources,
                         kernels::Backend* backend)
    : sources_(sources), backend_(backend) {
  for (const kernels::ConstVector& source : sources_) floats_ += source.size;
}

absl::StatusOr<std::unique_ptr<LateNumbers>> LateNumbers::Create(
    const std::vector<kernels::ConstVector>& sources,
    kernels::Backend* backend) {
  std::unique_ptr<LateNumbers> numbers(new LateNumbers(sources, backend));
  ASSIGN_OR_RETURN(void* const memory,
                   backend->AllocateHost(kSteps * numbers->floats_ *
                                         int64_t{sizeof(float)}));
  numbers->host_ = static_cast<float*>(memory);
  return numbers;
}

LateNumbers::~LateNumbers() {
  // The device may still write.
  if (fetched_ > taken_) backend_->Synchronize().IgnoreError();
  if (host_ != nullptr) backend_->FreeHost(host_);
}

absl::Status LateNumbers::Fetch() {
  if (fetched_ - taken_ == kSteps) {
    return absl::FailedPreconditionError(
        "the numbers of the steps before were not taken");
  }
  float* to = Slot(fetched_);
  for (const kernels::ConstVector& source : sources_) {
    RETURN_IF_ERROR(backend_->CopyToHostLater(
        to, source.data, source.size * int64_t{sizeof(float)}));
    to += source.size;
  }
  ASSIGN_OR_RETURN(marks_[fetched_ % kSteps], backend_->Mark());
  ++fetched_;
  return absl::OkStatus();
}

absl::StatusOr<const float*> LateNumbers::Take() {
  if (fetched_ == taken_) {
    return absl::FailedPreconditionError("no numbers were fetched");
  }
  RETURN_IF_ERROR(backend_->Wait(marks_[taken_ % kSteps]));
  return Slot(taken_++);
}

}  // namespace comera::trainer
