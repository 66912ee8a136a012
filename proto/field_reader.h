// Fills a message from a YAML tree by walking the message's descriptor.
#ifndef COMERA_PROTO_FIELD_READER_H_
#define COMERA_PROTO_FIELD_READER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "proto/yaml_tree.h"

namespace comera {

// Fills `message`. Values are written so:
//   enum       the proto's name in any case: masked_lm
//   durations  1h30m, 90s
//   *_bytes    also with a unit: 64MiB, 2GB
//   lists      one value stands for a list of one; `auto` for an empty list
//
// InvalidArgument, with a line `name:line: path: problem` for each value that
// does not fit its field, each unknown field, each second member of a oneof,
// and each field that is given under two names. `message` then has what could
// be read.
//
// A former name of a field is read as the current one; `notes`, unless null,
// gets a line `name:line: ...` that says so.
absl::Status ReadMessage(const YamlNode& node, const std::string& name,
                         google::protobuf::Message* message,
                         std::vector<std::string>* notes = nullptr);

// Sets the one field that `path` (dotted) names, clearing its old value.
absl::Status ReadField(const YamlNode& node, const std::string& name,
                       const std::string& path,
                       google::protobuf::Message* message,
                       std::vector<std::string>* notes = nullptr);

}  // namespace comera

#endif  // COMERA_PROTO_FIELD_READER_H_
