#include "proto/message_checks.h"

#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

namespace comera {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxStringBytes = 4096;
constexpr size_t kMaxViolations = 100;

// Length of the UTF-8 sequence at the start of `text`; 0 if there is none.
size_t Utf8SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const auto continues = [&](size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    // Neither overlong forms nor surrogates.
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) &&
                   continues(3, 0x80, 0xBF)
               ? 4
               : 0;
  }
  return 0;
}

// What is wrong with a string; empty if nothing is.
std::string StringFault(std::string_view text) {
  if (text.size() > kMaxStringBytes) {
    return absl::StrCat("has ", text.size(), " bytes; at most ",
                        kMaxStringBytes, " are allowed");
  }
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) return "is not valid UTF-8";
    const unsigned char lead = static_cast<unsigned char>(text[0]);
    const bool c1_control =
        lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (lead < 0x20 || lead == 0x7F || c1_control) {
      return "holds a control character";
    }
    text.remove_prefix(length);
  }
  return "";
}

class Walker {
 public:
  explicit Walker(std::vector<FieldViolation>* violations)
      : violations_(violations) {}

  void Walk(const Message& message, const std::string& prefix) {
    const Reflection& reflection = *message.GetReflection();
    const auto& unknown = reflection.GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      Add(absl::StrCat(prefix, unknown.field(i).number()),
          "is a field this version does not know");
    }
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string path = absl::StrCat(prefix, field->name());
      if (!field->is_repeated()) {
        Check(message, *field, -1, path);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Check(message, *field, i, absl::StrCat(path, "[", i, "]"));
      }
    }
  }

 private:
  void Add(std::string field, std::string description) {
    if (violations_->size() >= kMaxViolations) return;
    violations_->push_back({std::move(field), std::move(description)});
  }

  // One value: `index` within a repeated field, or -1.
  void Check(const Message& message, const FieldDescriptor& field, int index,
             const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const bool single = index < 0;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const double value =
            single ? reflection.GetDouble(message, &field)
                   : reflection.GetRepeatedDouble(message, &field, index);
        if (!std::isfinite(value)) Add(path, "must be a finite number");
        return;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int value =
            single ? reflection.GetEnumValue(message, &field)
                   : reflection.GetRepeatedEnumValue(message, &field, index);
        if (field.enum_type()->FindValueByNumber(value) == nullptr) {
          Add(path, absl::StrCat(value, " is no ", field.enum_type()->name(),
                                 " this version knows"));
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string value =
            single ? reflection.GetString(message, &field)
                   : reflection.GetRepeatedString(message, &field, index);
        std::string fault = StringFault(value);
        if (!fault.empty()) Add(path, std::move(fault));
        return;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (single) {
          Walk(reflection.GetMessage(message, &field), absl::StrCat(path, "."));
        } else {
          Walk(reflection.GetRepeatedMessage(message, &field, index),
               absl::StrCat(path, "."));
        }
        return;
      default:
        return;
    }
  }

  std::vector<FieldViolation>* violations_;
};

}  // namespace

void CheckFields(const Message& message,
                 std::vector<FieldViolation>* violations) {
  Walker(violations).Walk(message, "");
}

}  // namespace comera
