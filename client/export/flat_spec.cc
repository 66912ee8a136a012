// Walks a specification by reflection and collects its fields as text.

#include "client/export/flat_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/time_util.h"
#include "proto/job_defaults.h"

namespace comera::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Flattener {
 public:
  void Add(const Message& message, const std::string& prefix) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string name = absl::StrCat(prefix, field->name());
      if (field->is_map()) {
        AddMap(message, field, name);
      } else if (field->is_repeated()) {
        AddRepeated(message, field, name);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AddMessage(message.GetReflection()->GetMessage(message, field), name);
      } else {
        values_.emplace_back(name, Scalar(message, field, -1));
      }
    }
  }

  std::vector<std::pair<std::string, std::string>> Release() {
    return std::move(values_);
  }

 private:
  void AddMessage(const Message& message, const std::string& name) {
    if (const auto* duration =
            dynamic_cast<const google::protobuf::Duration*>(&message)) {
      values_.emplace_back(
          name, google::protobuf::util::TimeUtil::ToString(*duration));
      return;
    }
    Add(message, name + ".");
  }

  // All maps in JobSpec are from string to string.
  void AddMap(const Message& message, const FieldDescriptor* field,
              const std::string& name) {
    const Reflection* reflection = message.GetReflection();
    std::vector<std::pair<std::string, std::string>> entries;
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      const Message& entry = reflection->GetRepeatedMessage(message, field, i);
      const auto* type = entry.GetDescriptor();
      entries.emplace_back(
          absl::StrCat(name, ".", Scalar(entry, type->field(0), -1)),
          Scalar(entry, type->field(1), -1));
    }
    std::sort(entries.begin(), entries.end());
    values_.insert(values_.end(), entries.begin(), entries.end());
  }

  void AddRepeated(const Message& message, const FieldDescriptor* field,
                   const std::string& name) {
    const Reflection* reflection = message.GetReflection();
    std::string joined;
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AddMessage(reflection->GetRepeatedMessage(message, field, i),
                   absl::StrCat(name, ".", i));
      } else {
        absl::StrAppend(&joined, joined.empty() ? "" : ",",
                        Scalar(message, field, i));
      }
    }
    if (!joined.empty()) values_.emplace_back(name, joined);
  }

  // `index` is the place in a repeated field, else -1.
  static std::string Scalar(const Message& message,
                            const FieldDescriptor* field, int index) {
    const Reflection* r = message.GetReflection();
    const bool many = index >= 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return absl::StrCat(many ? r->GetRepeatedInt32(message, field, index)
                                 : r->GetInt32(message, field));
      case FieldDescriptor::CPPTYPE_INT64:
        return absl::StrCat(many ? r->GetRepeatedInt64(message, field, index)
                                 : r->GetInt64(message, field));
      case FieldDescriptor::CPPTYPE_UINT32:
        return absl::StrCat(many ? r->GetRepeatedUInt32(message, field, index)
                                 : r->GetUInt32(message, field));
      case FieldDescriptor::CPPTYPE_UINT64:
        return absl::StrCat(many ? r->GetRepeatedUInt64(message, field, index)
                                 : r->GetUInt64(message, field));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return absl::StrCat(many ? r->GetRepeatedDouble(message, field, index)
                                 : r->GetDouble(message, field));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return absl::StrCat(many ? r->GetRepeatedFloat(message, field, index)
                                 : r->GetFloat(message, field));
      case FieldDescriptor::CPPTYPE_BOOL:
        return (many ? r->GetRepeatedBool(message, field, index)
                     : r->GetBool(message, field))
                   ? "true"
                   : "false";
      case FieldDescriptor::CPPTYPE_ENUM:
        return (many ? r->GetRepeatedEnum(message, field, index)
                     : r->GetEnum(message, field))
            ->name();
      case FieldDescriptor::CPPTYPE_STRING:
        return many ? r->GetRepeatedString(message, field, index)
                    : r->GetString(message, field);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
    }
    return "";
  }

  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> FlattenSpec(
    const v1::JobSpec& spec) {
  Flattener flattener;
  flattener.Add(WithDefaults(spec), "");
  return flattener.Release();
}

}  // namespace comera::client
