// Checks members of JSON objects and names the one at fault.
#include "worker/trainer/data/tokenizer/json_members.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

std::string Message(const std::string& file, absl::string_view path,
                    absl::string_view what) {
  return absl::StrCat(PrintablePath(file), ": ", path, path.empty() ? "" : ": ",
                      what);
}

}  // namespace

absl::Status JsonMembers::Malformed(absl::string_view path,
                                    absl::string_view what) const {
  return absl::DataLossError(Message(name_, path, what));
}

absl::Status JsonMembers::Unsupported(absl::string_view path,
                                      absl::string_view what) const {
  return absl::InvalidArgumentError(Message(name_, path, what));
}

const nlohmann::json& JsonMembers::Member(const nlohmann::json& object,
                                          const char* key) {
  static const auto* const absent = new nlohmann::json();
  const auto found = object.find(key);
  return found == object.end() ? *absent : *found;
}

absl::Status JsonMembers::CheckKnown(
    const nlohmann::json& object, absl::string_view path,
    std::initializer_list<absl::string_view> known) const {
  for (const auto& [key, value] : object.items()) {
    if (!absl::c_linear_search(known, key)) {
      // Its name may be a secret, if the file is another than was meant.
      return Unsupported(absl::StripSuffix(path, "."),
                         absl::StrCat("a member is not known; expected only ",
                                      absl::StrJoin(known, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status JsonMembers::CheckUnset(const nlohmann::json& object,
                                     absl::string_view path,
                                     const char* key) const {
  const nlohmann::json& value = Member(object, key);
  if (value.is_null() || value == false || value == 0 || value == "") {
    return absl::OkStatus();
  }
  return Unsupported(absl::StrCat(path, key), "is not supported");
}

absl::StatusOr<bool> JsonMembers::Bool(const nlohmann::json& object,
                                       absl::string_view path, const char* key,
                                       bool otherwise) const {
  const nlohmann::json& value = Member(object, key);
  if (value.is_null()) return otherwise;
  if (value.is_boolean()) return value.get<bool>();
  return Malformed(absl::StrCat(path, key), "must be true or false");
}

}  // namespace comera::trainer
