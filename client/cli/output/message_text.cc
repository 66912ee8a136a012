// Converts messages to JSON with protobuf, and that to YAML.

#include "client/cli/output/message_text.h"

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/json.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/util/json_util.h"
#include "unicode/uchar.h"
#include "unicode/utf8.h"
#include "yaml-cpp/emitter.h"
#include "yaml-cpp/emittermanip.h"

namespace comera::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using nlohmann::ordered_json;

// Every whole number up to here is a number of JavaScript, and so of all
// readers of JSON.
constexpr uint64_t kMaxExact = uint64_t{1} << 53;

bool Is64Bits(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

void MakeNumber(ordered_json* value) {
  if (!value->is_string()) return;
  const std::string text = value->get<std::string>();
  uint64_t magnitude = 0;
  if (!absl::SimpleAtoi(text[0] == '-' ? text.substr(1) : text, &magnitude) ||
      magnitude > kMaxExact) {
    return;
  }
  const auto number = static_cast<int64_t>(magnitude);
  *value = text[0] == '-' ? -number : number;
}

void MakeNumbersIn(const Descriptor& type, ordered_json* object);

// Makes the 64-bit numbers in a field's value numbers, which protobuf writes as
// text.
void MakeNumbers(const FieldDescriptor& field, ordered_json* value) {
  if (Is64Bits(field)) return MakeNumber(value);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
      !absl::StartsWith(field.message_type()->full_name(),
                        "google.protobuf.")) {
    MakeNumbersIn(*field.message_type(), value);
  }
}

void MakeNumbersIn(const Descriptor& type, ordered_json* object) {
  if (!object->is_object()) return;
  for (auto& [name, value] : object->items()) {
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) continue;
    if (field->is_map()) field = field->message_type()->FindFieldByNumber(2);
    if (value.is_array() || (value.is_object() && field->name() == "value" &&
                             field->containing_type()->options().map_entry())) {
      for (auto& item : value) MakeNumbers(*field, &item);
    } else {
      MakeNumbers(*field, &value);
    }
  }
}

// Escapes the characters beyond ASCII's first 32 that terminals obey: DEL,
// U+0080 to U+009F, and those that change the direction of writing. JSON
// and YAML have such characters inside of quoted texts only.
std::string EscapeControls(const std::string& text) {
  std::string escaped;
  const auto size = static_cast<int32_t>(text.size());
  int32_t i = 0;
  while (i < size) {
    const int32_t begin = i;
    UChar32 c = 0;
    U8_NEXT(text.data(), i, size, c);
    if ((c >= 0x7F && c < 0xA0) ||
        (c > 0 && u_hasBinaryProperty(c, UCHAR_BIDI_CONTROL))) {
      absl::StrAppendFormat(&escaped, "\\u%04x", c);
    } else {
      escaped.append(text, begin, i - begin);
    }
  }
  return escaped;
}

// A text with such characters is quoted, so that they can be escaped later.
void EmitText(const std::string& text, YAML::Emitter& out) {
  if (EscapeControls(text) != text) out << YAML::DoubleQuoted;
  out << text;
}

void Emit(const nlohmann::ordered_json& value, YAML::Emitter& out) {
  if (value.is_object()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key;
      EmitText(key, out);
      out << YAML::Value;
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
    EmitText(value.get<std::string>(), out);
  } else {
    out << JsonText(value);
  }
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  // It fails only on invalid UTF-8 or times out of range.
  if (!status.ok()) text = "{}";
  ordered_json json = ParseOrderedJson(text);
  MakeNumbersIn(*message.GetDescriptor(), &json);
  return EscapeControls(JsonText(json, one_line ? -1 : 1)) + "\n";
}

std::string ToYaml(const google::protobuf::Message& message) {
  const auto json = ParseOrderedJson(ToJson(message, true));
  YAML::Emitter out;
  Emit(json, out);
  return "---\n" + EscapeControls(out.c_str()) + "\n";
}

}  // namespace comera::client
