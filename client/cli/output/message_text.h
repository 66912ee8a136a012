// Prints messages as JSON and YAML.
#ifndef COMERA_CLIENT_CLI_OUTPUT_MESSAGE_TEXT_H_
#define COMERA_CLIENT_CLI_OUTPUT_MESSAGE_TEXT_H_

#include <string>

#include "google/protobuf/message.h"

namespace comera::client {

// Returns protobuf's JSON with the proto's field names and times in RFC 3339,
// ending in a newline; 64-bit numbers are numbers as far as every reader of
// JSON has them exactly (up to 2^53), and text beyond.
std::string ToJson(const google::protobuf::Message& message, bool one_line);

// Returns the same fields and values as a YAML document, beginning with `---`.
std::string ToYaml(const google::protobuf::Message& message);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_MESSAGE_TEXT_H_
