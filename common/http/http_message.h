// HTTP requests and answers as the gateway sees them, free of any library.
#ifndef COMERA_COMMON_HTTP_HTTP_MESSAGE_H_
#define COMERA_COMMON_HTTP_HTTP_MESSAGE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

namespace comera {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The value of the header `name`, in any case of letters; null: there is none.
// The first, if there are several.
inline const std::string* FindHeader(const HttpHeaders& headers,
                                     std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key,
                               absl::string_view(name.data(), name.size()))) {
      return &value;
    }
  }
  return nullptr;
}

struct HttpRequest {
  // "GET"; of HEAD too, whose answer just loses its body on the way.
  std::string method;
  // The path as it was sent, still percent-encoded; `query` without "?".
  std::string path;
  std::string query;
  HttpHeaders headers;
  std::string body;
  // "http:127.0.0.1:40000".
  std::string peer;
  // PeerKey of it.
  std::string peer_key;
  // Common name of the client's certificate; empty: it showed none.
  std::string certificate_name;
  bool tls = false;
};

struct HttpResponse {
  int code = 200;
  // Content-Length, Date and Connection are added on the way.
  HttpHeaders headers;
  // Null: none.
  std::shared_ptr<const std::string> body;
};

inline HttpResponse MakeResponse(int code, std::string content_type,
                                 std::string body) {
  HttpResponse response;
  response.code = code;
  response.headers.emplace_back("Content-Type", std::move(content_type));
  response.body = std::make_shared<const std::string>(std::move(body));
  return response;
}

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_HTTP_MESSAGE_H_
