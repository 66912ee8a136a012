// Writes the reasons for which jobs wait as sentences.
#include "server/scheduler/wait_reason.h"

#include "absl/strings/str_cat.h"

namespace comera::server {
namespace {

std::string NoneInService(int32_t drained, int32_t away) {
  if (drained == 0 && away == 0) return "none is connected";
  std::string text = "none is in service: ";
  const auto workers = [](int32_t count) {
    return absl::StrCat(count, count == 1 ? " worker is " : " workers are ");
  };
  if (drained > 0) {
    absl::StrAppend(&text, workers(drained), "drained or excluded");
  }
  if (away > 0) {
    absl::StrAppend(&text, drained > 0 ? ", " : "", workers(away),
                    "not connected");
  }
  return text;
}

}  // namespace

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
      return absl::StrCat(slots(""), ", ", NoneInService(have, unfit));
    case kPoolTooSmall:
      return absl::StrCat(
          slots(""), ", the cluster has ", have,
          unfit > 0 ? absl::StrCat(" and ", unfit, " unfit") : "");
    case kNoRoom:
      return absl::StrCat(slots("free "), ", ", have, " free",
                          unfit > 0 ? absl::StrCat(", ", unfit, " unfit") : "");
    case kNoProgramRoom:
      return limit == 0
                 ? absl::StrCat(slots(""),
                                " of a worker that runs programs, none does "
                                "(comera-worker --allow_programs)")
                 : absl::StrCat(slots("free "),
                                " of workers that run programs, ", have, " of ",
                                limit, " are free");
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
