#ifndef COMERA_SERVER_HTTP_OPENAPI_SERVER_RULES_H_
#define COMERA_SERVER_HTTP_OPENAPI_SERVER_RULES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/http/openapi/http_rules.h"

namespace comera::server {

// The rules of http_rules.yaml, which is part of the program. InvalidArgument:
// it does not fit the protos.
absl::StatusOr<std::vector<HttpRule>> ServerRules();

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_OPENAPI_SERVER_RULES_H_
