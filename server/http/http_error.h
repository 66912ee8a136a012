#ifndef COMERA_SERVER_HTTP_HTTP_ERROR_H_
#define COMERA_SERVER_HTTP_HTTP_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "common/http/http_message.h"
#include "grpcpp/grpcpp.h"

namespace comera::server {

// The code that belongs to a status, as google.rpc.Code has it.
int HttpCode(grpc::StatusCode code);

// {"error": {...}} as AIP-193 has it, with the details that are known here.
// `http_code`: 0: the status's own.
std::string ErrorJson(const grpc::Status& status, int http_code = 0);

// With Retry-After and WWW-Authenticate where they belong.
HttpResponse ErrorResponse(const grpc::Status& status, int http_code = 0);
HttpResponse ErrorResponse(const absl::Status& status, int http_code = 0);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_HTTP_ERROR_H_
