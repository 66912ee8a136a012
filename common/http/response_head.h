#ifndef COMERA_COMMON_HTTP_RESPONSE_HEAD_H_
#define COMERA_COMMON_HTTP_RESPONSE_HEAD_H_

#include <optional>
#include <string>

#include "common/http/http_message.h"

namespace comera {

// Everything before an answer's body. `length`: of the body; nothing: it is
// told otherwise. Headers that hold line breaks are left out.
std::string ResponseHead(const HttpResponse& response,
                         std::optional<size_t> length, bool chunked,
                         bool keep_alive);

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_RESPONSE_HEAD_H_
