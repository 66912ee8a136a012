#ifndef COMERA_SERVER_HTTP_OPENAPI_OPENAPI_H_
#define COMERA_SERVER_HTTP_OPENAPI_OPENAPI_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/http/openapi/http_rules.h"

namespace comera::server {

// The API over HTTP as OpenAPI 3.1, from its rules; comments of the protos are
// its text, if their descriptors have them.
nlohmann::ordered_json DescribeApi(const std::vector<HttpRule>& rules,
                                   const std::string& version);

// /v1/{name=jobs/*}:cancel as /v1/jobs/{job}:cancel.
std::string OpenApiPath(const PathTemplate& path);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_OPENAPI_OPENAPI_H_
