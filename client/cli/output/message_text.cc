// Converts messages to JSON with protobuf, and that to YAML.

#include "client/cli/output/message_text.h"

#include "common/json.h"
#include "google/protobuf/util/json_util.h"
#include "yaml-cpp/emitter.h"
#include "yaml-cpp/emittermanip.h"

namespace comera::client {
namespace {

void Emit(const nlohmann::ordered_json& value, YAML::Emitter& out) {
  if (value.is_object()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      Emit(member, out);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    // Lists of plain values, such as modes and ranks, read best on one line.
    const bool plain = value.empty() || !value.front().is_structured();
    out << (plain ? YAML::Flow : YAML::Block) << YAML::BeginSeq;
    for (const auto& item : value) Emit(item, out);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    out << value.get<std::string>();
  } else {
    out << JsonText(value);
  }
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = !one_line;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  // It fails only on invalid UTF-8 or times out of range.
  if (!status.ok()) text = "{}";
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

std::string ToYaml(const google::protobuf::Message& message) {
  const auto json = ParseOrderedJson(ToJson(message, true));
  YAML::Emitter out;
  Emit(json, out);
  return std::string("---\n") + out.c_str() + "\n";
}

}  // namespace comera::client
