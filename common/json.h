// JSON text to values and back. The parser and the writer of nlohmann::json are
// templates that take a second to compile: sources call these functions
// instead, so that they are compiled once.
#ifndef COMERA_COMMON_JSON_H_
#define COMERA_COMMON_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace comera {

// How deep values may nest: text from outside must not exhaust the stack.
inline constexpr int kMaxJsonDepth = 64;

// The value of `text`; is_discarded() if it is malformed or nests deeper than
// `max_depth`. A number that no double holds is malformed too.
nlohmann::json ParseJson(absl::string_view text, int max_depth = kMaxJsonDepth);
// The same, with the members of objects in the order of the text.
nlohmann::ordered_json ParseOrderedJson(absl::string_view text,
                                        int max_depth = kMaxJsonDepth);

// Text of `value`: on one line, or with each level indented by `indent`
// columns. What is not UTF-8 is replaced by U+FFFD.
std::string JsonText(const nlohmann::json& value, int indent = -1);
std::string JsonText(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace comera

#endif  // COMERA_COMMON_JSON_H_
