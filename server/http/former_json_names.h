// Former names of fields in JSON bodies.
#ifndef COMERA_SERVER_HTTP_FORMER_JSON_NAMES_H_
#define COMERA_SERVER_HTTP_FORMER_JSON_NAMES_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"

namespace comera::server {

// `text`, a JSON object for a message of `type`, with former names of fields
// replaced by the current ones; nothing if there are none. InvalidArgument with
// a BadRequest that names the field: it is given under both of its names.
absl::StatusOr<std::optional<std::string>> WithCurrentNames(
    std::string_view text, const google::protobuf::Descriptor& type);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_FORMER_JSON_NAMES_H_
