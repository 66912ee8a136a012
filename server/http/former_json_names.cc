// Walks a JSON body beside its message's descriptor and renames fields.

#include "server/http/former_json_names.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/former_names.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
// Not ordered_json, which finds a member by going through all of them: a body
// may have a million.
using nlohmann::json;

const FieldDescriptor* FindCurrent(const Descriptor& type,
                                   const std::string& key) {
  const FieldDescriptor* field = type.FindFieldByName(key);
  return field != nullptr ? field : type.FindFieldByCamelcaseName(key);
}

absl::Status Rename(const Descriptor& type, const std::string& prefix,
                    json* object, bool* renamed);

// Renames within the value of `field`: an object, or a list of objects.
absl::Status RenameWithin(const FieldDescriptor& field, const std::string& path,
                          json* value, bool* renamed) {
  if (field.message_type() == nullptr || field.is_map()) {
    return absl::OkStatus();
  }
  if (value->is_object()) {
    return Rename(*field.message_type(), absl::StrCat(path, "."), value,
                  renamed);
  }
  if (!value->is_array()) return absl::OkStatus();
  for (size_t i = 0; i < value->size(); ++i) {
    if (!(*value)[i].is_object()) continue;
    RETURN_IF_ERROR(Rename(*field.message_type(),
                           absl::StrCat(path, "[", i, "]."), &(*value)[i],
                           renamed));
  }
  return absl::OkStatus();
}

absl::Status Rename(const Descriptor& type, const std::string& prefix,
                    json* object, bool* renamed) {
  json result = json::object();
  for (auto& [key, value] : object->items()) {
    const FieldDescriptor* field = FindCurrent(type, key);
    std::string name = key;
    if (field == nullptr) {
      field = FindByFormerName(type, key);
      if (field != nullptr) {
        if (object->contains(field->name()) ||
            object->contains(field->json_name())) {
          return InvalidField(prefix + key,
                              absl::StrCat("is now called ", field->name(),
                                           ", which is given too"));
        }
        name = field->name();
        *renamed = true;
      }
    }
    if (field != nullptr) {
      RETURN_IF_ERROR(RenameWithin(*field, prefix + key, &value, renamed));
    }
    result[name] = std::move(value);
  }
  *object = std::move(result);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<std::string>> WithCurrentNames(
    std::string_view text, const Descriptor& type) {
  if (!MayQuoteFormerNames(text)) return std::nullopt;
  json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  bool renamed = false;
  RETURN_IF_ERROR(Rename(type, "", &object, &renamed));
  if (!renamed) return std::nullopt;
  try {
    return object.dump();
  } catch (const json::exception&) {
    return std::nullopt;  // not UTF-8: the parser will say so
  }
}

}  // namespace comera::server
