// Reads and writes the input format that an exported model carries.
#include "worker/trainer/data/corpus/input_format.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "comera-inputs";
constexpr int kVersion = 1;
constexpr int64_t kMaxFileBytes = 16 << 20;
constexpr size_t kMaxFields = 64;
constexpr size_t kMaxLabels = 100000;

// The strings of an array that may be missing; nothing if it is none.
bool Strings(const Json& json, const char* key, size_t most,
             std::vector<std::string>* values) {
  const auto found = json.find(key);
  if (found == json.end()) return true;
  if (!found->is_array() || found->size() > most) return false;
  for (const Json& value : *found) {
    if (!value.is_string()) return false;
    values->push_back(value.get<std::string>());
  }
  return true;
}

bool Text(const Json& json, const char* key, std::string* value) {
  const auto found = json.find(key);
  if (found == json.end()) return true;
  if (!found->is_string()) return false;
  *value = found->get<std::string>();
  return true;
}

}  // namespace

absl::Status SaveInputFormat(const InputFormat& format,
                             const std::string& directory) {
  Json json = {{"format", kFormat}, {"version", kVersion}};
  if (!format.fields.empty()) {
    json["fields"] = format.fields;
    json["fields_joined"] = format.fields_joined;
  }
  if (!format.label_field.empty()) json["label_field"] = format.label_field;
  if (!format.labels.empty()) json["labels"] = format.labels;
  if (!format.clicks.empty()) json["clicks"] = format.clicks;
  return WriteFileAtomically(absl::StrCat(directory, "/", kInputFormatFile),
                             JsonText(json, 2) + "\n");
}

absl::StatusOr<InputFormat> ParseInputFormat(const std::string& json,
                                             const std::string& name) {
  const auto bad = [&](const char* what) {
    return absl::DataLossError(absl::StrCat(PrintablePath(name), ": ", what));
  };
  const Json parsed = ParseJson(json, /*max_depth=*/7);
  if (!parsed.is_object() || parsed.value("format", Json()) != kFormat ||
      parsed.value("version", Json()) != kVersion) {
    return bad("not a description of inputs of version 1");
  }
  InputFormat format;
  if (!Strings(parsed, "fields", kMaxFields, &format.fields)) {
    return bad("fields: expected a short array of strings");
  }
  if (!Strings(parsed, "labels", kMaxLabels, &format.labels)) {
    return bad("labels: expected an array of strings");
  }
  if (!Text(parsed, "label_field", &format.label_field)) {
    return bad("label_field: expected a string");
  }
  if (!Text(parsed, "clicks", &format.clicks) ||
      (!format.clicks.empty() && format.clicks != "criteo" &&
       format.clicks != "rows")) {
    return bad("clicks: expected criteo or rows");
  }
  const auto joined = parsed.find("fields_joined");
  if (joined != parsed.end()) {
    if (!joined->is_boolean()) return bad("fields_joined: expected a boolean");
    format.fields_joined = joined->get<bool>();
  }
  if (!format.fields_joined && format.fields.size() > 2) {
    return bad("fields: more than a pair");
  }
  return format;
}

absl::StatusOr<InputFormat> LoadInputFormat(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kInputFormatFile);
  absl::StatusOr<std::string> json = ReadLimited(path, kMaxFileBytes);
  if (absl::IsNotFound(json.status())) return InputFormat();
  RETURN_IF_ERROR(json.status());
  return ParseInputFormat(*json, path);
}

}  // namespace comera::trainer
