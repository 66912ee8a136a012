// Walks a dotted path by reflection and sets the field at its end.

#include "proto/spec_field.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "proto/former_names.h"

namespace comera {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Unfit(absl::string_view text, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("`", text, "` is not ", wanted));
}

template <typename Int>
absl::StatusOr<Int> ToInt(absl::string_view text) {
  Int value;
  if (absl::SimpleAtoi(text, &value)) return value;
  return Unfit(text, "a whole number in range");
}

absl::StatusOr<int64_t> ToBytes(absl::string_view text) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"kB", 1e3},
      {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"B", 1.0}};
  double unit = 1;
  absl::string_view number = text;
  for (const auto& [name, size] : kUnits) {
    if (!absl::ConsumeSuffix(&number, name)) continue;
    unit = size;
    break;
  }
  if (number.size() == text.size()) return ToInt<int64_t>(text);
  double value;
  if (!absl::SimpleAtod(absl::StripAsciiWhitespace(number), &value) ||
      !(std::fabs(value * unit) < 9e18)) {
    return Unfit(text, "a size, e.g. 64MiB");
  }
  return static_cast<int64_t>(value * unit);
}

absl::StatusOr<const EnumValueDescriptor*> ToEnum(const FieldDescriptor& field,
                                                  absl::string_view text) {
  const EnumValueDescriptor* value =
      field.enum_type()->FindValueByName(absl::AsciiStrToUpper(text));
  if (value != nullptr && !absl::EndsWith(value->name(), "_UNSPECIFIED")) {
    return value;
  }
  std::string choices;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const std::string& name = field.enum_type()->value(i)->name();
    if (absl::EndsWith(name, "_UNSPECIFIED")) continue;
    absl::StrAppend(&choices, choices.empty() ? "" : ", ",
                    absl::AsciiStrToLower(name));
  }
  return Unfit(text, absl::StrCat("one of ", choices));
}

// Sets `field`, or appends to it if it is a list.
absl::Status SetScalar(const FieldDescriptor& field, absl::string_view text,
                       Message* message) {
  const Reflection& r = *message->GetReflection();
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      ASSIGN_OR_RETURN(const int32_t value, ToInt<int32_t>(text));
      add ? r.AddInt32(message, &field, value)
          : r.SetInt32(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      ASSIGN_OR_RETURN(const int64_t value,
                       absl::EndsWith(field.name(), "_bytes")
                           ? ToBytes(text)
                           : ToInt<int64_t>(text));
      add ? r.AddInt64(message, &field, value)
          : r.SetInt64(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      ASSIGN_OR_RETURN(const uint64_t value, ToInt<uint64_t>(text));
      add ? r.AddUInt64(message, &field, value)
          : r.SetUInt64(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value;
      if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
        return Unfit(text, "a number");
      }
      add ? r.AddDouble(message, &field, value)
          : r.SetDouble(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value;
      if (!absl::SimpleAtob(text, &value)) return Unfit(text, "true or false");
      add ? r.AddBool(message, &field, value)
          : r.SetBool(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      ASSIGN_OR_RETURN(const EnumValueDescriptor* value, ToEnum(field, text));
      add ? r.AddEnum(message, &field, value)
          : r.SetEnum(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      add ? r.AddString(message, &field, std::string(text))
          : r.SetString(message, &field, std::string(text));
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("cannot be set by its path");
  }
}

absl::Status SetDuration(const FieldDescriptor& field, absl::string_view text,
                         Message* message) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) ||
      absl::AbsDuration(duration) > absl::Hours(24 * 366 * 1000)) {
    return Unfit(text, "a duration, e.g. 90s");
  }
  google::protobuf::Duration proto;
  const int64_t seconds =
      absl::IDivDuration(duration, absl::Seconds(1), &duration);
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  message->GetReflection()->MutableMessage(message, &field)->CopyFrom(proto);
  return absl::OkStatus();
}

absl::Status SetLeaf(const FieldDescriptor& field, absl::string_view text,
                     Message* message) {
  message->GetReflection()->ClearField(message, &field);
  text = absl::StripAsciiWhitespace(text);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    if (!field.is_repeated() &&
        field.message_type()->full_name() == "google.protobuf.Duration") {
      return SetDuration(field, text, message);
    }
    return absl::InvalidArgumentError("is a group of fields: name one of them");
  }
  if (!field.is_repeated() || !absl::ConsumePrefix(&text, "[")) {
    return SetScalar(field, text, message);
  }
  if (!absl::ConsumeSuffix(&text, "]")) return Unfit(text, "a list, e.g. [8]");
  for (absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    RETURN_IF_ERROR(
        SetScalar(field, absl::StripAsciiWhitespace(part), message));
  }
  return absl::OkStatus();
}

absl::Status SetMapEntry(const FieldDescriptor& field, const std::string& key,
                         const std::string& value, Message* message) {
  const FieldDescriptor* key_field = field.message_type()->FindFieldByNumber(1);
  const FieldDescriptor* value_field =
      field.message_type()->FindFieldByNumber(2);
  if (key_field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return absl::InvalidArgumentError("cannot be set by its path");
  }
  // Among equal keys the last one wins.
  Message* entry = message->GetReflection()->AddMessage(message, &field);
  entry->GetReflection()->SetString(entry, key_field, key);
  return SetScalar(*value_field, value, entry);
}

}  // namespace

absl::Status SetSpecField(const std::string& path, const std::string& value,
                          Message* message) {
  std::string rest = path;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string key = rest.substr(0, dot);
    const FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(key);
    if (field == nullptr) {
      field = FindByFormerName(*message->GetDescriptor(), key);
    }
    if (field == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no field `", key, "`"));
    }
    if (dot == std::string::npos) {
      if (field->is_map()) {
        return absl::InvalidArgumentError("needs a key after its name");
      }
      return SetLeaf(*field, value, message);
    }
    rest = rest.substr(dot + 1);
    if (field->is_map()) return SetMapEntry(*field, rest, value, message);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        field->is_repeated() ||
        field->message_type()->full_name() == "google.protobuf.Duration") {
      return absl::InvalidArgumentError(
          absl::StrCat("`", key, "` has no fields that can be named"));
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
}

bool TakesWholeNumbers(const google::protobuf::Descriptor& type,
                       const std::string& path) {
  const google::protobuf::Descriptor* message = &type;
  const std::vector<std::string> names =
      absl::StrSplit(CurrentPath(type, path), '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const FieldDescriptor* const field = message->FindFieldByName(names[i]);
    if (field == nullptr || field->is_map()) return false;
    if (i + 1 == names.size()) {
      return field->cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
             field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
             field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return false;
    message = field->message_type();
  }
  return false;
}

}  // namespace comera
