// Walks a YAML tree beside a message's descriptor.

#include "proto/field_lines.h"

#include "absl/strings/str_cat.h"
#include "proto/former_names.h"

namespace comera {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

const FieldDescriptor* Find(const Descriptor& type, const std::string& key) {
  const FieldDescriptor* field = type.FindFieldByName(key);
  if (field == nullptr) field = type.FindFieldByCamelcaseName(key);
  return field != nullptr ? field : FindByFormerName(type, key);
}

void Walk(const YamlNode& node, const Descriptor& type,
          const std::string& prefix, FieldLines* lines);

void WalkValue(const YamlNode& node, const FieldDescriptor& field,
               const std::string& path, FieldLines* lines) {
  if (field.is_map()) {
    for (const YamlEntry& entry : node.entries) {
      lines->emplace(absl::StrCat(path, "[", entry.key, "]"), entry.line);
    }
    return;
  }
  const bool group = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (group && node.kind == YamlNode::Kind::kMap) {
    // A single group stands for a list of one.
    Walk(node, *field.message_type(),
         field.is_repeated() ? path + "[0]." : path + ".", lines);
  }
  for (size_t i = 0; i < node.items.size(); ++i) {
    const std::string item = absl::StrCat(path, "[", i, "]");
    lines->emplace(item, node.items[i]->line);
    if (group) Walk(*node.items[i], *field.message_type(), item + ".", lines);
  }
}

void Walk(const YamlNode& node, const Descriptor& type,
          const std::string& prefix, FieldLines* lines) {
  for (const YamlEntry& entry : node.entries) {
    const FieldDescriptor* field = Find(type, entry.key);
    if (field == nullptr) continue;
    const std::string path = prefix + field->name();
    lines->emplace(path, entry.line);
    WalkValue(*entry.value, *field, path, lines);
  }
}

}  // namespace

FieldLines FindFieldLines(const YamlNode& node, const Descriptor& type) {
  FieldLines lines;
  Walk(node, type, "", &lines);
  return lines;
}

int LineOf(const FieldLines& lines, std::string field) {
  while (!field.empty()) {
    const auto it = lines.find(field);
    if (it != lines.end()) return it->second;
    const size_t end = field.find_last_of(".[");
    field.resize(end == std::string::npos ? 0 : end);
  }
  return 0;
}

}  // namespace comera
