// Exchanges the energy of the members of a gang.
#include "worker/trainer/loop/energy_account.h"

#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

absl::Status EnergyAccount::Share() {
  if (communicator_ == nullptr || communicator_->world_size() == 1) {
    return absl::OkStatus();
  }
  const double own = Own();
  const auto used = static_cast<float>(own - shared_);
  float sum = used;
  RETURN_IF_ERROR(
      WithFailureClass(communicator_->AllReduce(absl::MakeSpan(&sum, 1)),
                       v1::COLLECTIVE_HANG));
  others_ += static_cast<double>(sum) - static_cast<double>(used);
  shared_ = own;
  return absl::OkStatus();
}

}  // namespace comera::trainer
