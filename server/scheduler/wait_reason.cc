// Writes the reasons for which jobs wait as sentences.
#include "server/scheduler/wait_reason.h"

#include "absl/strings/str_cat.h"

namespace comera::server {

std::string WaitReason::Text() const {
  const auto slots = [&](const char* adjective) {
    return absl::StrCat("waiting for ", need, " ", adjective,
                        gpu ? "GPU" : "CPU", need == 1 ? " slot" : " slots");
  };
  const auto processes = [&] {
    return absl::StrCat(need, need == 1 ? " process" : " processes");
  };
  switch (kind) {
    case kNone:
      return "waiting to be scheduled";
    case kNoWorker:
      return absl::StrCat(slots(""), ", none is connected");
    case kPoolTooSmall:
      return absl::StrCat(
          slots(""), ", the cluster has ", have,
          unfit > 0 ? absl::StrCat(" and ", unfit, " unfit") : "");
    case kNoRoom:
      return absl::StrCat(slots("free "), ", ", have, " free",
                          unfit > 0 ? absl::StrCat(", ", unfit, " unfit") : "");
    case kRoomComing:
      return absl::StrCat(slots(""), ", which other jobs are giving up");
    case kEarlierJobs:
      return "waiting for earlier jobs";
    case kQueueLimit:
      return absl::StrCat("waiting for ", processes(),
                          " of its queue, which uses ", have, " of ", limit);
    case kEarlierInQueue:
      return "waiting for earlier jobs of its queue";
    case kQueueTooSmall:
      return absl::StrCat("waiting for ", processes(), ", its queue may use ",
                          limit);
    case kBackOff:
      return "waiting before the next attempt";
  }
  return "";
}

}  // namespace comera::server
