#ifndef COMERA_WORKER_GANG_MEMBER_FAILURE_H_
#define COMERA_WORKER_GANG_MEMBER_FAILURE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "worker/gang/gang_member.h"

namespace comera::worker {

// A failure of this class that names the member and the time.
v1::Failure MakeFailure(v1::FailureClass failure_class,
                        const std::string& message, const v1::MemberKey& rank,
                        absl::Time time);

// Why a process ended without success although it was not asked to stop and
// reported no failure itself: OUT_OF_MEMORY if the kernel killed it for want of
// memory, else RANK_LOST.
v1::Failure FailureOfExit(const MemberExit& exit, const v1::MemberKey& rank,
                          absl::Time time);

// `status` with the class of the failure that it is, where the code alone does
// not say it; and that class, if there is one.
absl::Status WithFailureClass(absl::Status status,
                              v1::FailureClass failure_class);
std::optional<v1::FailureClass> FailureClassIn(const absl::Status& status);

// `text` as valid UTF-8, for messages: other bytes become '?'.
std::string ToUtf8(std::string text);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_FAILURE_H_
