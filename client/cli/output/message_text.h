// Messages as JSON and YAML.
#ifndef COMERA_CLIENT_CLI_OUTPUT_MESSAGE_TEXT_H_
#define COMERA_CLIENT_CLI_OUTPUT_MESSAGE_TEXT_H_

#include <string>

#include "google/protobuf/message.h"

namespace comera::client {

// Protobuf's JSON with the proto's field names, times in RFC 3339, and a
// newline at the end.
std::string ToJson(const google::protobuf::Message& message, bool one_line);

// The same fields and values as a YAML document, begun by `---`.
std::string ToYaml(const google::protobuf::Message& message);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_MESSAGE_TEXT_H_
