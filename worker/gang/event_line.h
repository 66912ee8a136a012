#ifndef COMERA_WORKER_GANG_EVENT_LINE_H_
#define COMERA_WORKER_GANG_EVENT_LINE_H_

#include <optional>
#include <string_view>

#include "comera/v1/progress.pb.h"

namespace comera::worker {

// The event that a line of a member's standard output is; nothing if it is
// none, so that it belongs in the log. Fields that a newer trainer may write
// are passed over. All strings of an event are UTF-8, and it has at most 1 MiB,
// so that a call can carry it.
std::optional<v1::TrainerEvent> ParseEventLine(std::string_view line);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_EVENT_LINE_H_
