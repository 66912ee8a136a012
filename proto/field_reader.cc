// Reads YAML values into the fields of any message, with errors that name line
// and path.

#include "proto/field_reader.h"

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "common/suggest.h"
#include "google/protobuf/descriptor.h"
#include "proto/former_names.h"
#include "proto/scalar_values.h"

namespace comera {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = YamlNode::Kind;

// Mistakes behind this many bytes of messages are left out.
constexpr size_t kMostErrorBytes = 8192;

constexpr char kDuration[] = "google.protobuf.Duration";

bool IsDuration(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field.message_type()->full_name() == kDuration;
}

const char* Describe(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return "a single value";
    case Kind::kSequence:
      return "a list";
    case Kind::kMap:
      return "a group of fields";
  }
  return "";
}

class Reader {
 public:
  Reader(std::string name, std::vector<std::string>* notes)
      : name_(std::move(name)), notes_(notes) {}

  absl::Status Fields(const YamlNode& node, const std::string& prefix,
                      Message* message) const {
    if (node.kind != Kind::kMap) {
      return Error(node.line, prefix,
                   absl::StrCat("needs fields, has ", Describe(node.kind)));
    }
    std::map<const FieldDescriptor*, std::string> given;
    absl::Status status;
    for (const YamlEntry& entry : node.entries) {
      const std::string path =
          prefix.empty() ? entry.key : absl::StrCat(prefix, ".", entry.key);
      status = Both(status, Field(entry, path, message, &given));
    }
    return status;
  }

  // Reads `field` of `message` from `node`.
  absl::Status Value(const YamlNode& node, const std::string& path,
                     const FieldDescriptor& field, Message* message) const {
    if (field.is_map()) return Map(node, path, field, message);
    if (field.is_repeated()) {
      return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                 ? Groups(node, path, field, message)
                 : List(node, path, field, message);
    }
    if (IsDuration(field)) return Duration(node, path, field, message);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return Fields(node, path,
                    message->GetReflection()->MutableMessage(message, &field));
    }
    return Scalar(node, path, field, message);
  }

  absl::Status UnknownField(int line, const std::string& path,
                            const std::string& key,
                            const Descriptor& type) const {
    std::vector<std::string> names;
    for (int i = 0; i < type.field_count(); ++i) {
      names.push_back(type.field(i)->name());
    }
    return Error(line, path,
                 absl::StrCat("unknown field", DidYouMean(key, names)));
  }

  absl::Status Error(int line, const std::string& path,
                     const std::string& message) const {
    return absl::InvalidArgumentError(absl::StrCat(
        name_, ":", line, ": ", path, path.empty() ? "" : ": ", message));
  }

  // Says that a field was given under a former name.
  void Note(const std::string& where, const std::string& path,
            const FieldDescriptor& field) const {
    if (notes_ == nullptr) return;
    notes_->push_back(
        absl::StrCat(where, ": ", FormerNameNote(path, field.name())));
  }

  // Finds a field by its name in the proto, or by its name in protobuf's JSON.
  static const FieldDescriptor* Find(const Descriptor& type,
                                     const std::string& key) {
    const FieldDescriptor* field = type.FindFieldByName(key);
    return field != nullptr ? field : type.FindFieldByCamelcaseName(key);
  }

 private:
  // Reads one field; `given` has those before it.
  absl::Status Field(
      const YamlEntry& entry, const std::string& path, Message* message,
      std::map<const FieldDescriptor*, std::string>* given) const {
    const Descriptor& type = *message->GetDescriptor();
    const FieldDescriptor* field = Find(type, entry.key);
    if (field == nullptr) {
      field = FindByFormerName(type, entry.key);
      if (field == nullptr) {
        return UnknownField(entry.line, path, entry.key, type);
      }
      Note(absl::StrCat(name_, ":", entry.line), path, *field);
    }
    const auto [other, is_new] = given->emplace(field, entry.key);
    if (!is_new) {
      return Error(
          entry.line, path,
          absl::StrCat("is `", other->second, "`, which is given too"));
    }
    RETURN_IF_ERROR(CheckUnset(entry.line, path, *field, *message));
    RETURN_IF_ERROR(CheckGiven(entry, path));
    return Value(*entry.value, path, *field, message);
  }

  // Both errors, a line each.
  static absl::Status Both(const absl::Status& first,
                           const absl::Status& second) {
    if (first.ok()) return second;
    if (second.ok() || first.message().size() > kMostErrorBytes) return first;
    return absl::InvalidArgumentError(
        absl::StrCat(first.message(), "\n", second.message()));
  }

  // The line of a null is where the next key begins, so its key's line is used.
  absl::Status CheckGiven(const YamlEntry& entry,
                          const std::string& path) const {
    if (entry.value->kind != Kind::kNull) return absl::OkStatus();
    return Error(entry.line, path, "has no value");
  }

  absl::Status CheckUnset(int line, const std::string& path,
                          const FieldDescriptor& field,
                          const Message& message) const {
    const Reflection& reflection = *message.GetReflection();
    const auto* oneof = field.real_containing_oneof();
    if (oneof == nullptr) return absl::OkStatus();
    const auto* other = reflection.GetOneofFieldDescriptor(message, oneof);
    if (other == nullptr) return absl::OkStatus();
    return Error(
        line, path,
        absl::StrCat("excludes `", other->name(), "`, which is given too"));
  }

  absl::Status Map(const YamlNode& node, const std::string& path,
                   const FieldDescriptor& field, Message* message) const {
    if (node.kind != Kind::kMap) {
      return Error(
          node.line, path,
          absl::StrCat("needs keys and values, has ", Describe(node.kind)));
    }
    const FieldDescriptor& key = *field.message_type()->map_key();
    const FieldDescriptor& value = *field.message_type()->map_value();
    absl::Status status;
    for (const YamlEntry& entry : node.entries) {
      const std::string entry_path = absl::StrCat(path, "[", entry.key, "]");
      Message* added = message->GetReflection()->AddMessage(message, &field);
      added->GetReflection()->SetString(added, &key, entry.key);
      absl::Status read = CheckGiven(entry, entry_path);
      if (read.ok()) read = Value(*entry.value, entry_path, value, added);
      status = Both(status, read);
    }
    return status;
  }

  // Reads a list of groups of fields; a single group is a list of one.
  absl::Status Groups(const YamlNode& node, const std::string& path,
                      const FieldDescriptor& field, Message* message) const {
    const Reflection& reflection = *message->GetReflection();
    if (node.kind == Kind::kMap) {
      return Fields(node, path, reflection.AddMessage(message, &field));
    }
    if (node.kind != Kind::kSequence) {
      return Error(node.line, path,
                   absl::StrCat("needs a list, has ", Describe(node.kind)));
    }
    absl::Status status;
    for (size_t i = 0; i < node.items.size(); ++i) {
      status =
          Both(status, Fields(*node.items[i], absl::StrCat(path, "[", i, "]"),
                              reflection.AddMessage(message, &field)));
    }
    return status;
  }

  absl::Status List(const YamlNode& node, const std::string& path,
                    const FieldDescriptor& field, Message* message) const {
    if (node.kind == Kind::kScalar) {
      const bool numbers = field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
      if (numbers && !node.quoted && node.text == "auto") {
        return absl::OkStatus();
      }
      return Scalar(node, path, field, message);
    }
    if (node.kind != Kind::kSequence) {
      return Error(node.line, path,
                   absl::StrCat("needs a list, has ", Describe(node.kind)));
    }
    absl::Status status;
    for (size_t i = 0; i < node.items.size(); ++i) {
      status =
          Both(status, Scalar(*node.items[i], absl::StrCat(path, "[", i, "]"),
                              field, message));
    }
    return status;
  }

  absl::Status Duration(const YamlNode& node, const std::string& path,
                        const FieldDescriptor& field, Message* message) const {
    Message* duration =
        message->GetReflection()->MutableMessage(message, &field);
    auto parsed = node.kind == Kind::kScalar
                      ? ParseDurationText(node.text)
                      : absl::InvalidArgumentError("needs one value");
    if (!parsed.ok()) {
      return Error(node.line, path, std::string(parsed.status().message()));
    }
    const Descriptor& type = *duration->GetDescriptor();
    const Reflection& reflection = *duration->GetReflection();
    reflection.SetInt64(duration, type.FindFieldByName("seconds"),
                        parsed->seconds);
    reflection.SetInt32(duration, type.FindFieldByName("nanos"), parsed->nanos);
    return absl::OkStatus();
  }

  // Sets one value, or adds it to a repeated field.
  absl::Status Scalar(const YamlNode& node, const std::string& path,
                      const FieldDescriptor& field, Message* message) const {
    if (node.kind != Kind::kScalar) {
      return Error(node.line, path,
                   absl::StrCat("needs one value, has ", Describe(node.kind)));
    }
    const absl::Status status = SetScalar(node, field, message);
    if (status.ok()) return status;
    return Error(node.line, path, std::string(status.message()));
  }

  static absl::Status SetScalar(const YamlNode& node,
                                const FieldDescriptor& field,
                                Message* message) {
    const Reflection& r = *message->GetReflection();
    const bool add = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        add ? r.AddString(message, &field, node.text)
            : r.SetString(message, &field, node.text);
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_BOOL: {
        ASSIGN_OR_RETURN(const bool value, ParseBool(node.text, node.quoted));
        add ? r.AddBool(message, &field, value)
            : r.SetBool(message, &field, value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        ASSIGN_OR_RETURN(const double value,
                         ParseDouble(node.text, node.quoted));
        add ? r.AddDouble(message, &field, value)
            : r.SetDouble(message, &field, value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        ASSIGN_OR_RETURN(const uint64_t value, ParseUint64(node.text));
        add ? r.AddUInt64(message, &field, value)
            : r.SetUInt64(message, &field, value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        using Limits = std::numeric_limits<int32_t>;
        ASSIGN_OR_RETURN(const int64_t value, ParseInt(node.text, node.quoted));
        if (value < Limits::min() || value > Limits::max()) {
          return absl::InvalidArgumentError(
              absl::StrCat(value, " is out of range"));
        }
        add ? r.AddInt32(message, &field, static_cast<int32_t>(value))
            : r.SetInt32(message, &field, static_cast<int32_t>(value));
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const bool bytes = absl::EndsWith(field.name(), "_bytes");
        // Protobuf's JSON writes 64-bit numbers in quotes.
        ASSIGN_OR_RETURN(const int64_t value,
                         bytes ? ParseBytes(node.text)
                               : ParseInt(node.text, /*quoted=*/false));
        add ? r.AddInt64(message, &field, value)
            : r.SetInt64(message, &field, value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_ENUM:
        return SetEnum(node.text, field, message);
      default:
        return absl::InternalError("cannot be given in a job file");
    }
  }

  static absl::Status SetEnum(const std::string& text,
                              const FieldDescriptor& field, Message* message) {
    const EnumDescriptor& type = *field.enum_type();
    const EnumValueDescriptor* value =
        type.FindValueByName(absl::AsciiStrToUpper(text));
    const auto is_choice = [](const EnumValueDescriptor& choice) {
      return !absl::EndsWith(choice.name(), "_UNSPECIFIED");
    };
    if (value != nullptr && is_choice(*value)) {
      const Reflection& r = *message->GetReflection();
      field.is_repeated() ? r.AddEnum(message, &field, value)
                          : r.SetEnum(message, &field, value);
      return absl::OkStatus();
    }
    std::vector<std::string> names;
    for (int i = 0; i < type.value_count(); ++i) {
      if (is_choice(*type.value(i))) {
        names.push_back(absl::AsciiStrToLower(type.value(i)->name()));
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("`", text, "` is none of ", absl::StrJoin(names, ", "),
                     DidYouMean(absl::AsciiStrToLower(text), names)));
  }

  const std::string name_;
  std::vector<std::string>* const notes_;
};

}  // namespace

absl::Status ReadMessage(const YamlNode& node, const std::string& name,
                         Message* message, std::vector<std::string>* notes) {
  return Reader(name, notes).Fields(node, "", message);
}

absl::Status ReadField(const YamlNode& node, const std::string& name,
                       const std::string& path, Message* message,
                       std::vector<std::string>* notes) {
  const Reader reader(name, notes);
  std::string rest = path;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string key = rest.substr(0, dot);
    const Descriptor& type = *message->GetDescriptor();
    const FieldDescriptor* field = Reader::Find(type, key);
    if (field == nullptr) {
      field = FindByFormerName(type, key);
      if (field == nullptr) return reader.UnknownField(1, path, key, type);
      reader.Note(name, path, *field);
    }
    const Reflection& reflection = *message->GetReflection();
    if (dot == std::string::npos) {
      reflection.ClearField(message, field);
      return reader.Value(node, path, *field, message);
    }
    rest = rest.substr(dot + 1);
    if (field->is_map()) {
      // The rest of the path after a map's name is the key, dots included.
      YamlNode entry;
      entry.kind = Kind::kMap;
      entry.line = 1;
      entry.entries.push_back({rest, 1, std::make_shared<YamlNode>(node)});
      return reader.Value(entry, path, *field, message);
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        field->is_repeated() || IsDuration(*field)) {
      return reader.Error(1, path, absl::StrCat("`", key, "` has no fields"));
    }
    message = reflection.MutableMessage(message, field);
  }
}

}  // namespace comera
