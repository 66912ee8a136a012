// Compiles the parser and the writer of JSON for the sources that call them.
#include "common/json.h"

#include <string>

namespace comera {
namespace {

// Whether arrays and objects of the text nest deeper than `most`. The library's
// own way to ask, a callback, searches an array anew for each object in it.
bool IsDeeper(absl::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;  // whatever follows does not end the string
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

template <typename Json>
Json Parse(absl::string_view text, int max_depth) {
  if (!IsDeeper(text, max_depth)) {
    try {
      return Json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                         /*allow_exceptions=*/false);
    } catch (const nlohmann::json::out_of_range&) {
      // A number that no double holds throws whatever was asked for.
    }
  }
  return Json(Json::value_t::discarded);
}

template <typename Json>
std::string Text(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false,
                    Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json ParseJson(absl::string_view text, int max_depth) {
  return Parse<nlohmann::json>(text, max_depth);
}

nlohmann::ordered_json ParseOrderedJson(absl::string_view text, int max_depth) {
  return Parse<nlohmann::ordered_json>(text, max_depth);
}

std::string JsonText(const nlohmann::json& value, int indent) {
  return Text(value, indent);
}

std::string JsonText(const nlohmann::ordered_json& value, int indent) {
  return Text(value, indent);
}

}  // namespace comera
