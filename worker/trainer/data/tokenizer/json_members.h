#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_JSON_MEMBERS_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_JSON_MEMBERS_H_

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace comera::trainer {

// Checks the members of objects in a JSON file from outside. Every error names
// the file and the member: "tokenizer.json: model.dropout: is not supported".
// A `path` is that of an object and ends in a dot unless it is "".
class JsonMembers {
 public:
  // `name` is the file's and outlives the object.
  explicit JsonMembers(const std::string& name) : name_(name) {}

  // DataLoss, about the member at `path`.
  absl::Status Malformed(absl::string_view path, absl::string_view what) const;
  // InvalidArgument, about the member at `path`.
  absl::Status Unsupported(absl::string_view path,
                           absl::string_view what) const;

  // The member `key` of an object, null where there is none.
  static const nlohmann::json& Member(const nlohmann::json& object,
                                      const char* key);

  // InvalidArgument: the object has members that are not `known`.
  absl::Status CheckKnown(const nlohmann::json& object, absl::string_view path,
                          std::initializer_list<absl::string_view> known) const;
  // InvalidArgument: the member is neither absent nor null, false, 0 or "".
  absl::Status CheckUnset(const nlohmann::json& object, absl::string_view path,
                          const char* key) const;
  // The member, or `otherwise` where it is absent or null. DataLoss.
  absl::StatusOr<bool> Bool(const nlohmann::json& object,
                            absl::string_view path, const char* key,
                            bool otherwise) const;

 private:
  const std::string& name_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_JSON_MEMBERS_H_
