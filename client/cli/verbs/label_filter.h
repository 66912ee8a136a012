#ifndef COMERA_CLIENT_CLI_VERBS_LABEL_FILTER_H_
#define COMERA_CLIENT_CLI_VERBS_LABEL_FILTER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"

namespace comera::client {

// Parses labels from KEY=VALUE arguments. InvalidArgument.
inline absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> labels;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label ", Printable(argument), ": must be KEY=VALUE"));
    }
    labels[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  return labels;
}

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_LABEL_FILTER_H_
