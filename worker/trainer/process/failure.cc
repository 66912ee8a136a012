// Attaches failure classes to statuses, and reads them back.
#include "worker/trainer/process/failure.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/util/time_util.h"

namespace comera::trainer {
namespace {

constexpr char kUrl[] = "type.comera/failure_class";

}  // namespace

absl::Status WithFailureClass(absl::Status status,
                              v1::FailureClass failure_class) {
  if (!status.ok() && !status.GetPayload(kUrl).has_value()) {
    status.SetPayload(kUrl, absl::Cord(v1::FailureClass_Name(failure_class)));
  }
  return status;
}

v1::FailureClass FailureClassOf(const absl::Status& status) {
  if (const auto payload = status.GetPayload(kUrl)) {
    v1::FailureClass failure_class;
    if (v1::FailureClass_Parse(std::string(*payload), &failure_class)) {
      return failure_class;
    }
  }
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
      return v1::USER;
    case absl::StatusCode::kDataLoss:
      return v1::DATA;
    case absl::StatusCode::kResourceExhausted:
      return v1::OUT_OF_MEMORY;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return v1::COLLECTIVE_HANG;
    default:
      return v1::INTERNAL;
  }
}

v1::Failure ToFailure(const absl::Status& status, int64_t attempt, int rank) {
  v1::Failure failure;
  failure.set_failure_class(FailureClassOf(status));
  failure.set_message(std::string(status.message()));
  *failure.mutable_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
          absl::GetCurrentTimeNanos());
  failure.set_attempt(attempt);
  failure.set_rank(rank);
  return failure;
}

absl::Status NotFiniteError(int64_t step, absl::string_view what,
                            double value) {
  return absl::InternalError(absl::StrCat("step ", step, ": ", what, " is ",
                                          value,
                                          "; a lower learning rate may help"));
}

absl::Status NotFinite(int64_t step, absl::string_view what, double value) {
  return WithFailureClass(NotFiniteError(step, what, value), v1::NAN_LOSS);
}

}  // namespace comera::trainer
