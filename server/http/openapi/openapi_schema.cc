// Makes JSON schemas of protobuf messages.
#include "server/http/openapi/openapi_schema.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace comera::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::SourceLocation;
using Json = nlohmann::ordered_json;

constexpr char kPackage[] = "comera.v1.";

std::string ShortName(const std::string& full_name) {
  absl::string_view name = full_name;
  absl::ConsumePrefix(&name, kPackage);
  return std::string(name);
}

Json Reference(const std::string& full_name) {
  return {
      {"$ref", absl::StrCat("#/components/schemas/", ShortName(full_name))}};
}

// Messages that JSON writes as one value.
const std::map<std::string, Json>& WellKnown() {
  static const auto* const types = new std::map<std::string, Json>{
      {"google.protobuf.Timestamp",
       {{"type", "string"}, {"format", "date-time"}}},
      {"google.protobuf.Duration",
       {{"type", "string"}, {"pattern", "^-?[0-9]+(\\.[0-9]{1,9})?s$"}}},
      {"google.protobuf.FieldMask",
       {{"type", "string"}, {"description", "Fields, separated by commas."}}},
      {"google.protobuf.Any",
       {{"type", "object"}, {"additionalProperties", true}}},
      {"google.protobuf.Empty", {{"type", "object"}}},
  };
  return *types;
}

}  // namespace

template <typename T>
std::string CommentOf(const T& descriptor) {
  SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return "";
  std::string text;
  for (absl::string_view line : absl::StrSplit(
           absl::StripAsciiWhitespace(location.leading_comments), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) {
      absl::StrAppend(&text, "\n\n");
    } else {
      absl::StrAppend(&text, text.empty() || text.back() == '\n' ? "" : " ",
                      line);
    }
  }
  return text;
}

template std::string CommentOf(const Descriptor&);
template std::string CommentOf(const FieldDescriptor&);
template std::string CommentOf(const EnumDescriptor&);
template std::string CommentOf(const google::protobuf::MethodDescriptor&);
template std::string CommentOf(const google::protobuf::ServiceDescriptor&);
template std::string CommentOf(const google::protobuf::EnumValueDescriptor&);

Json OpenApiSchemas::Of(const Descriptor& message) {
  const auto known = WellKnown().find(message.full_name());
  if (known != WellKnown().end()) return known->second;
  messages_[message.full_name()] = &message;
  return Reference(message.full_name());
}

Json OpenApiSchemas::Single(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return {{"type", "integer"}, {"format", "int32"}};
    case FieldDescriptor::CPPTYPE_UINT32:
      return {{"type", "integer"}, {"format", "uint32"}};
    // JavaScript's numbers are too short for them.
    case FieldDescriptor::CPPTYPE_INT64:
      return {{"type", "string"}, {"format", "int64"}};
    case FieldDescriptor::CPPTYPE_UINT64:
      return {{"type", "string"}, {"format", "uint64"}};
    case FieldDescriptor::CPPTYPE_FLOAT:
      return {{"type", "number"}, {"format", "float"}};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return {{"type", "number"}, {"format", "double"}};
    case FieldDescriptor::CPPTYPE_BOOL:
      return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.type() == FieldDescriptor::TYPE_BYTES) {
        return {{"type", "string"}, {"contentEncoding", "base64"}};
      }
      return {{"type", "string"}};
    case FieldDescriptor::CPPTYPE_ENUM:
      enums_[field.enum_type()->full_name()] = field.enum_type();
      return Reference(field.enum_type()->full_name());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Of(*field.message_type());
  }
  return Json::object();
}

Json OpenApiSchemas::Of(const FieldDescriptor& field) {
  if (field.is_map()) {
    return {
        {"type", "object"},
        {"additionalProperties", Single(*field.message_type()->map_value())}};
  }
  if (field.is_repeated()) {
    return {{"type", "array"}, {"items", Single(field)}};
  }
  return Single(field);
}

Json OpenApiSchemas::Describe(const Descriptor& message) {
  Json schema = {{"type", "object"}};
  const std::string comment = CommentOf(message);
  if (!comment.empty()) schema["description"] = comment;
  Json properties = Json::object();
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    Json property = Of(field);
    std::string text = CommentOf(field);
    if (field.real_containing_oneof() != nullptr) {
      absl::StrAppend(&text, text.empty() ? "" : " ", "At most one of the ",
                      field.real_containing_oneof()->name(), "s is set.");
    }
    if (!text.empty()) property["description"] = text;
    properties[field.json_name()] = property;
  }
  schema["properties"] = properties;
  schema["additionalProperties"] = false;
  return schema;
}

Json OpenApiSchemas::Describe(const EnumDescriptor& type) {
  Json schema = {{"type", "string"}};
  std::string text = CommentOf(type);
  Json names = Json::array();
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(type.value(i)->name());
    const std::string comment = CommentOf(*type.value(i));
    if (comment.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "\n\n", "`",
                    type.value(i)->name(), "`: ", comment);
  }
  schema["enum"] = names;
  if (!text.empty()) schema["description"] = text;
  return schema;
}

Json OpenApiSchemas::Components() {
  std::map<std::string, Json> done;
  // Describing a message may refer to more.
  bool more = true;
  while (more) {
    more = false;
    const auto messages = messages_;
    for (const auto& [name, message] : messages) {
      if (done.count(ShortName(name)) > 0) continue;
      done[ShortName(name)] = Describe(*message);
      more = true;
    }
  }
  for (const auto& [name, type] : enums_) {
    done[ShortName(name)] = Describe(*type);
  }
  Json schemas = Json::object();
  for (auto& [name, schema] : done) schemas[name] = std::move(schema);
  return schemas;
}

}  // namespace comera::server
