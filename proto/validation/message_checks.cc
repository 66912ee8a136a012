// Walks a message by reflection and checks its numbers and strings.

#include "proto/validation/message_checks.h"

#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/common.h"
#include "google/protobuf/unknown_field_set.h"

namespace comera {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxStringBytes = 4096;
constexpr size_t kMaxViolations = 100;

// Describes what is wrong with a string; empty if nothing is.
std::string StringFault(std::string_view text) {
  if (text.size() > kMaxStringBytes) {
    return absl::StrCat("has ", text.size(), " bytes; at most ",
                        kMaxStringBytes, " are allowed");
  }
  if (!google::protobuf::internal::IsStructurallyValidUTF8(
          text.data(), static_cast<int>(text.size()))) {
    return "is not valid UTF-8";
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    // The second block of control characters, U+0080 to U+009F.
    const bool c1 = c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c < 0x20 || c == 0x7F || c1) return "holds a control character";
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

  // Checks one value; `index` is its place in a repeated field, or -1.
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
