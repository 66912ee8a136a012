// Setting one field of a specification by its path.
#ifndef COMERA_PROTO_SPEC_FIELD_H_
#define COMERA_PROTO_SPEC_FIELD_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace comera {

// Sets the field that `path` (dotted) names to `value`, clearing what it held.
// Values as in a job file: numbers, true and false, enums by name in any case,
// durations (90s, 1h30m), sizes (64MiB) for fields named *_bytes, and lists as
// one value or [8, 16]. What follows a map's name is the key. Former names of
// fields are read too.
//
// InvalidArgument: no such field, a group of fields, or a value that does not
// fit; the message does not repeat the path.
absl::Status SetSpecField(const std::string& path, const std::string& value,
                          google::protobuf::Message* message);

}  // namespace comera

#endif  // COMERA_PROTO_SPEC_FIELD_H_
