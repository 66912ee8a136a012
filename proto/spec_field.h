// Sets one field of a specification by its path.
#ifndef COMERA_PROTO_SPEC_FIELD_H_
#define COMERA_PROTO_SPEC_FIELD_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace comera {

// Sets the field that `path` (dotted) names to `value`, clearing its old value.
// Values are written as in a job file: numbers, true and false, enums by name
// in any case, durations (90s, 1h30m), sizes (64MiB) for fields named *_bytes,
// and lists as one value or [8, 16]. The part of the path after a map's name is
// the key. Former names of fields are accepted too.
//
// InvalidArgument: there is no such field, the path names a group of fields, or
// the value does not fit. The message does not repeat the path.
absl::Status SetSpecField(const std::string& path, const std::string& value,
                          google::protobuf::Message* message);

// Whether the path names a field of whole numbers in messages of this type.
bool TakesWholeNumbers(const google::protobuf::Descriptor& type,
                       const std::string& path);

}  // namespace comera

#endif  // COMERA_PROTO_SPEC_FIELD_H_
