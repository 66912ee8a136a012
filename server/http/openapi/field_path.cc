// Finds the field of a message that a dotted path names.
#include "server/http/openapi/field_path.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/former_names.h"

namespace comera::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

absl::Status Bad(std::string_view path, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::CEscape(std::string(path.substr(0, 200))), ": ", why));
}

}  // namespace

const FieldDescriptor* FindFieldByAnyName(const Descriptor* descriptor,
                                          std::string_view name) {
  const std::string text(name);
  const FieldDescriptor* field = descriptor->FindFieldByName(text);
  for (int i = 0; field == nullptr && i < descriptor->field_count(); ++i) {
    if (descriptor->field(i)->json_name() == text) field = descriptor->field(i);
  }
  return field != nullptr ? field : FindByFormerName(*descriptor, text);
}

absl::StatusOr<const FieldDescriptor*> FindField(const Descriptor* descriptor,
                                                 std::string_view path) {
  std::string_view rest = path;
  while (true) {
    const size_t dot = rest.find('.');
    const FieldDescriptor* field =
        FindFieldByAnyName(descriptor, rest.substr(0, dot));
    if (field == nullptr) return Bad(path, "there is no such field");
    if (dot == std::string_view::npos) return field;
    if (field->is_repeated() || field->message_type() == nullptr) {
      return Bad(path, absl::StrCat(field->name(), " has no fields"));
    }
    descriptor = field->message_type();
    rest = rest.substr(dot + 1);
  }
}

}  // namespace comera::server
