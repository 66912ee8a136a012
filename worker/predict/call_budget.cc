// Counts calls and the bytes of their requests.

#include "worker/predict/call_budget.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace comera::worker {

CallBudget::Share::Share(CallBudget* budget, int64_t bytes)
    : budget_(budget), bytes_(bytes) {}

CallBudget::Share::Share(Share&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}

CallBudget::Share::~Share() {
  if (budget_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(budget_->mutex_);
  --budget_->calls_;
  budget_->bytes_ -= bytes_;
}

absl::StatusOr<CallBudget::Share> CallBudget::Take(int64_t bytes) {
  if (bytes > most_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request takes ", bytes, " bytes, more than ", most_bytes_));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (calls_ >= most_calls_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(calls_, " calls are waiting already: try again"));
  }
  if (bytes > most_bytes_ - bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("requests of ", bytes_, " bytes are waiting already, and ",
                     bytes, " more are above ", most_bytes_, ": try again"));
  }
  ++calls_;
  bytes_ += bytes;
  return Share(this, bytes);
}

}  // namespace comera::worker
