// Fields of a message by their paths, as paths and queries name them.
#ifndef COMERA_SERVER_HTTP_REQUEST_FIELDS_H_
#define COMERA_SERVER_HTTP_REQUEST_FIELDS_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace comera::server {

// Sets the field at `path` to what `text` means for it; adds to a repeated one,
// and to a map's, whose key is the rest of the path. Timestamps, durations and
// masks are written as in JSON. InvalidArgument "PATH: ...": no such field, one
// that has no text, or no text for it.
absl::Status SetField(std::string_view path, std::string_view text,
                      google::protobuf::Message* message);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_REQUEST_FIELDS_H_
