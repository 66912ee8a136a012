// JSON to and from messages, with errors that say where.
#ifndef COMERA_SERVER_HTTP_JSON_TEXT_H_
#define COMERA_SERVER_HTTP_JSON_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace comera::server {

// `text` as a JSON string with its quotes; nothing if it is not UTF-8.
std::optional<std::string> JsonString(std::string_view text);

// The same, with a replacement character for what is not UTF-8.
std::string JsonStringOfAny(std::string_view text);

// Reads one JSON object into the empty `message`. InvalidArgument: "line 2,
// column 7: ..." for what is no JSON or nested too deep, with a BadRequest that
// names the field for what does not fit the message. Former names of fields are
// read as the current ones.
absl::Status JsonToMessage(std::string_view json,
                           google::protobuf::Message* message);

// The serialized message `wire` of this type as JSON. Internal: it is none.
absl::StatusOr<std::string> WireToJson(
    const google::protobuf::Descriptor* descriptor, const std::string& wire);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_JSON_TEXT_H_
