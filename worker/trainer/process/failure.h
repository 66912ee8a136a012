#ifndef COMERA_WORKER_TRAINER_PROCESS_FAILURE_H_
#define COMERA_WORKER_TRAINER_PROCESS_FAILURE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "comera/v1/job.pb.h"

namespace comera::trainer {

// `status` with the class of its failure, where the code alone does not say it.
// A class that is already there stays: the first cause wins.
absl::Status WithFailureClass(absl::Status status,
                              v1::FailureClass failure_class);

// The class set by WithFailureClass, else by code: InvalidArgument, NotFound,
// PermissionDenied and FailedPrecondition are the USER's, DataLoss is DATA,
// ResourceExhausted is OUT_OF_MEMORY, Unavailable, DeadlineExceeded and
// Aborted are COLLECTIVE_HANG, all others INTERNAL.
v1::FailureClass FailureClassOf(const absl::Status& status);

v1::Failure ToFailure(const absl::Status& status, int64_t attempt, int rank);

// An error without a class: `what` of a step, e.g. "training loss", has this
// value.
absl::Status NotFiniteError(int64_t step, absl::string_view what, double value);
// A NAN_LOSS: `what` of a step, e.g. "training loss", has this value.
absl::Status NotFinite(int64_t step, absl::string_view what, double value);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_FAILURE_H_
