#ifndef COMERA_SERVER_HTTP_REQUEST_MESSAGE_H_
#define COMERA_SERVER_HTTP_REQUEST_MESSAGE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "server/http/router.h"

namespace comera::server {

using QueryParameters = std::vector<std::pair<std::string, std::string>>;

// "a=1&b=x%20y". InvalidArgument: bad encoding, or too many (1000).
absl::StatusOr<QueryParameters> ParseQuery(std::string_view query);

// The request that a call over HTTP makes: fields from the path, then from the
// query or the body, as the rule has it. InvalidArgument, with a BadRequest
// where it is about a field.
absl::StatusOr<std::unique_ptr<google::protobuf::Message>> MakeRequestMessage(
    const Router::Match& match, const QueryParameters& query,
    std::string_view body);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_REQUEST_MESSAGE_H_
