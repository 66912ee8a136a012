// Turns errors into HTTP status codes and JSON bodies.
#include "server/http/http_error.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "comera/rpc/error_details.pb.h"
#include "google/protobuf/util/json_util.h"
#include "server/http/json_text.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) details.Clear();
  return details;
}

}  // namespace

int HttpCode(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return 200;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
      return 400;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::ALREADY_EXISTS:
      return 409;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::CANCELLED:
      return 499;
    case grpc::StatusCode::UNIMPLEMENTED:
      return 501;
    case grpc::StatusCode::UNAVAILABLE:
      return 503;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return 504;
    default:
      return 500;
  }
}

std::string ErrorJson(const grpc::Status& status, int http_code) {
  std::string json =
      absl::StrCat("{\"error\":{\"code\":",
                   http_code != 0 ? http_code : HttpCode(status.error_code()),
                   ",\"status\":\"",
                   absl::StatusCodeToString(
                       static_cast<absl::StatusCode>(status.error_code())),
                   "\",\"message\":", JsonStringOfAny(status.error_message()),
                   ",\"details\":[");
  bool first = true;
  const google::rpc::Status details = Details(status);
  for (const google::protobuf::Any& any : details.details()) {
    std::string one;
    // What is of no known type stays out.
    if (!google::protobuf::util::MessageToJsonString(any, &one).ok()) continue;
    absl::StrAppend(&json, first ? "" : ",", one);
    first = false;
  }
  absl::StrAppend(&json, "]}}");
  return json;
}

HttpResponse ErrorResponse(const grpc::Status& status, int http_code) {
  HttpResponse response =
      MakeResponse(http_code != 0 ? http_code : HttpCode(status.error_code()),
                   "application/json", ErrorJson(status, http_code));
  if (response.code == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  const google::rpc::Status details = Details(status);
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::RetryInfo retry;
    if (!any.Is<google::rpc::RetryInfo>() || !any.UnpackTo(&retry)) continue;
    // Whole seconds, rounded up.
    const int64_t seconds = retry.retry_delay().seconds() +
                            (retry.retry_delay().nanos() > 0 ? 1 : 0);
    response.headers.emplace_back("Retry-After",
                                  absl::StrCat(std::max<int64_t>(seconds, 0)));
  }
  return response;
}

HttpResponse ErrorResponse(const absl::Status& status, int http_code) {
  return ErrorResponse(ToRpcStatus(status), http_code);
}

}  // namespace comera::server
