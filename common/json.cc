// Compiles the parser and the writer of JSON for the sources that call them.
#include "common/json.h"

#include <string>

namespace comera {
namespace {

template <typename Json>
Json Parse(absl::string_view text, int max_depth) {
  bool deep = false;
  try {
    Json value = Json::parse(
        text.begin(), text.end(),
        [&](int depth, typename Json::parse_event_t, Json&) {
          deep |= depth > max_depth;
          return !deep;
        },
        /*allow_exceptions=*/false);
    if (!deep) return value;
  } catch (const nlohmann::json::out_of_range&) {
    // A number that no double holds throws whatever was asked for.
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
