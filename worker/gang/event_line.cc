// Parses the lines of JSON that members write as events.

#include "worker/gang/event_line.h"

#include "google/protobuf/util/json_util.h"

namespace comera::worker {
namespace {

// The most bytes of an event, of which a call has room for one at least. A line
// of negative numbers makes more than three times as many bytes as it has.
constexpr size_t kMaxEventBytes = size_t{1} << 20;

}  // namespace

std::optional<v1::TrainerEvent> ParseEventLine(std::string_view line) {
  if (line.empty() || line[0] != '{') return std::nullopt;
  v1::TrainerEvent event;
  google::protobuf::util::JsonParseOptions parse;
  parse.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(
           google::protobuf::StringPiece(line.data(), line.size()), &event,
           parse)
           .ok()) {
    return std::nullopt;
  }
  if (event.ByteSizeLong() > kMaxEventBytes) return std::nullopt;
  return event;
}

}  // namespace comera::worker
