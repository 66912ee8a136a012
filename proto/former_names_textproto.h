// Former names of fields in textprotos.
#ifndef COMERA_PROTO_FORMER_NAMES_TEXTPROTO_H_
#define COMERA_PROTO_FORMER_NAMES_TEXTPROTO_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"

namespace comera {

// `contents`, a textproto of a message of `type`, with former names replaced
// by the current ones; every field stays on its line. Adds `name:line: note`
// to `notes` for each. A text that is malformed is returned as it is, for the
// parser to refuse.
//
// InvalidArgument `name:line: path: what is wrong`: a field is given under both
// of its names.
absl::StatusOr<std::string> WithCurrentNames(
    const std::string& contents, const std::string& name,
    const google::protobuf::Descriptor& type, std::vector<std::string>* notes);

}  // namespace comera

#endif  // COMERA_PROTO_FORMER_NAMES_TEXTPROTO_H_
