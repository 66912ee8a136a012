// Sets fields of a request message from text.
#include "server/http/request_fields.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "server/http/json_text.h"
#include "server/http/openapi/field_path.h"

namespace comera::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Bad(std::string_view path, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::CEscape(std::string(path.substr(0, 200))), ": ", why));
}

// Messages that are one string in JSON.
bool IsText(const Descriptor* descriptor) {
  return descriptor->full_name() == "google.protobuf.Timestamp" ||
         descriptor->full_name() == "google.protobuf.Duration" ||
         descriptor->full_name() == "google.protobuf.FieldMask";
}

// Where a path leads: a field of `message`, and what of the path is left for a
// map's key.
struct Place {
  Message* message;
  const FieldDescriptor* field;
  std::string_view key;
};

absl::StatusOr<Place> Resolve(std::string_view path, Message* message) {
  std::string_view rest = path;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view name = rest.substr(0, dot);
    const FieldDescriptor* field =
        FindFieldByAnyName(message->GetDescriptor(), name);
    if (field == nullptr) return Bad(path, "there is no such parameter");
    rest = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    if (field->is_map()) {
      if (rest.empty()) return Bad(path, "a map needs a key: NAME.KEY=VALUE");
      return Place{message, field, rest};
    }
    if (rest.empty()) return Place{message, field, ""};
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        field->is_repeated()) {
      return Bad(path, absl::StrCat(field->json_name(), " has no fields"));
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
}

template <typename T>
std::optional<T> ToNumber(std::string_view text) {
  T value = 0;
  const absl::string_view view(text.data(), text.size());
  if constexpr (std::is_floating_point_v<T>) {
    double wide = 0;
    if (!absl::SimpleAtod(view, &wide)) return std::nullopt;
    value = static_cast<T>(wide);
    if (std::isfinite(wide) != std::isfinite(value)) return std::nullopt;
  } else if (!absl::SimpleAtoi(view, &value)) {
    return std::nullopt;
  }
  return value;
}

const EnumValueDescriptor* ToEnum(const EnumDescriptor* descriptor,
                                  std::string_view text) {
  const EnumValueDescriptor* value =
      descriptor->FindValueByName(std::string(text));
  const auto number = ToNumber<int32_t>(text);
  if (value == nullptr && number)
    value = descriptor->FindValueByNumber(*number);
  return value;
}

std::string EnumNames(const EnumDescriptor* descriptor) {
  std::string names;
  for (int i = 0; i < descriptor->value_count(); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", descriptor->value(i)->name());
  }
  return names;
}

absl::Status SetValue(std::string_view path, std::string_view text,
                      const FieldDescriptor* field, Message* message) {
  const Reflection* reflection = message->GetReflection();
  const bool add = field->is_repeated();
  const auto bad = [&path](const std::string& what) {
    return Bad(path, absl::StrCat("must be ", what));
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto value = ToNumber<int32_t>(text);
      if (!value) return bad("a 32-bit integer");
      add ? reflection->AddInt32(message, field, *value)
          : reflection->SetInt32(message, field, *value);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const auto value = ToNumber<int64_t>(text);
      if (!value) return bad("a 64-bit integer");
      add ? reflection->AddInt64(message, field, *value)
          : reflection->SetInt64(message, field, *value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto value = ToNumber<uint32_t>(text);
      if (!value) return bad("a 32-bit integer from 0");
      add ? reflection->AddUInt32(message, field, *value)
          : reflection->SetUInt32(message, field, *value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const auto value = ToNumber<uint64_t>(text);
      if (!value) return bad("a 64-bit integer from 0");
      add ? reflection->AddUInt64(message, field, *value)
          : reflection->SetUInt64(message, field, *value);
      break;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const auto value = ToNumber<double>(text);
      if (!value) return bad("a number");
      add ? reflection->AddDouble(message, field, *value)
          : reflection->SetDouble(message, field, *value);
      break;
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const auto value = ToNumber<float>(text);
      if (!value) return bad("a number");
      add ? reflection->AddFloat(message, field, *value)
          : reflection->SetFloat(message, field, *value);
      break;
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      if (text != "true" && text != "false") return bad("true or false");
      add ? reflection->AddBool(message, field, text == "true")
          : reflection->SetBool(message, field, text == "true");
      break;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = ToEnum(field->enum_type(), text);
      if (value == nullptr) {
        return bad("one of " + EnumNames(field->enum_type()));
      }
      add ? reflection->AddEnum(message, field, value)
          : reflection->SetEnum(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string value(text);
      if (field->type() == FieldDescriptor::TYPE_BYTES) {
        if (!absl::Base64Unescape(std::string(text), &value) &&
            !absl::WebSafeBase64Unescape(std::string(text), &value)) {
          return bad("base64");
        }
      } else if (!JsonString(text)) {
        return bad("UTF-8");
      }
      add ? reflection->AddString(message, field, value)
          : reflection->SetString(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      if (!IsText(field->message_type())) return bad("set field by field");
      const auto json = JsonString(text);
      if (!json) return bad("UTF-8");
      Message* value = add ? reflection->AddMessage(message, field)
                           : reflection->MutableMessage(message, field);
      if (!google::protobuf::util::JsonStringToMessage(*json, value).ok()) {
        return bad(
            "written as in protobuf's JSON, e.g. 2026-01-31T12:00:00Z, "
            "90s, a.b,c");
      }
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetField(std::string_view path, std::string_view text,
                      Message* message) {
  ASSIGN_OR_RETURN(const Place place, Resolve(path, message));
  if (!place.field->is_map()) {
    return SetValue(path, text, place.field, place.message);
  }
  Message* entry =
      place.message->GetReflection()->AddMessage(place.message, place.field);
  const Descriptor* descriptor = place.field->message_type();
  RETURN_IF_ERROR(SetValue(path, place.key, descriptor->map_key(), entry));
  return SetValue(path, text, descriptor->map_value(), entry);
}

}  // namespace comera::server
